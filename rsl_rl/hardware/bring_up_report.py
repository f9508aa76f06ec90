"""Show a bring-up: lines for a terminal, robot.yaml for OnnxPolicy, and a page (HTML) with plots."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List

import numpy as np

from rsl_rl.evaluation.report import figure_html, page_html, text_table_html
from rsl_rl.hardware.bring_up_result import Channel, Found
from rsl_rl.hardware.imu import to_quaternion
from rsl_rl.hardware.session import PERIOD
from rsl_rl.utils.text import html_text

FORMAT = 1
"""Version of robot.yaml."""
_HEADER = [
    "robot's joint",
    "is",
    "sign",
    "zero [rad]",
    "+/-",
    "delay [ms]",
    f"rate [1/s], at most {1 / PERIOD:.0f}",
    "seen [rad]",
    "known by",
]


def _row(one: Channel) -> List[str]:
    if not one.joint:
        zero = ["not determined", "", "", ""]
    else:
        zero = [one.joint, f"{one.sign:+d}", f"{one.zero:+.3f}", f"{one.zero_spread:.3f}"]
    delay = "" if np.isnan(one.delay) else f"{1000 * one.delay:.0f}"
    return [
        one.name,
        *zero,
        delay,
        f"{one.rate:.0f}",
        f"{one.low:.2f} to {one.high:.2f}",
        one.evidence if one.joint else "",
    ]


def lines(found: Found) -> List[str]:
    """Return what was found, and what was not, as lines."""
    rows = [_HEADER, *map(_row, found.channels)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
    shown = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    shown += [f"note: {note}" for note in found.notes] + _imu_lines(found)
    return shown + [f"not determined: {problem}" for problem in found.problems]


def _imu_lines(found: Found) -> List[str]:
    shown = []
    if found.imu is not None:
        w, x, y, z = to_quaternion(found.imu.mounting)
        shown.append(
            f"IMU: quaternion {found.imu.quaternion_order}, mounting {w:.3f} {x:.3f} {y:.3f} {z:.3f} (w x y z, base to "
            f"IMU), angular velocity in {found.imu.unit}"
        )
    rates = ", ".join(f"{name} {rate:.0f}" for name, rate in found.rates.items())
    return [*shown, f"different readings in a second: {rates}; units: {', '.join(found.units.values())}"]


def robot_yaml(found: Found, robot: str) -> bytes:
    """Return robot.yaml: the wiring that OnnxPolicy applies. It is JSON, which YAML contains.

    A bring-up that has not determined all is a ValueError.
    """
    if not found.is_complete or found.imu is None:
        raise ValueError("the wiring is not determined")
    joints = [
        {
            "name": one.joint,
            "driver_name": one.name,
            "sign": one.sign,
            "zero": round(one.zero, 5),
            "zero_spread": round(one.zero_spread, 5),
            "delay": None if np.isnan(one.delay) else round(one.delay, 4),
            "rate": round(one.rate, 1),
            "seen": [round(one.low, 4), round(one.high, 4)],
            "known_by": one.evidence,
        }
        for one in found.channels
    ]
    content: Dict[str, Any] = {
        "format": FORMAT,
        "robot": robot,
        "quaternion_order": found.imu.quaternion_order,
        "imu_mounting": [round(float(x), 6) for x in to_quaternion(found.imu.mounting)],
        "units": found.units,
        "rates": {name: round(rate, 1) for name, rate in found.rates.items()},
    }
    rows = ",\n".join(f"    {json.dumps(joint)}" for joint in joints)
    head = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in content.items())
    return f'{{\n{head},\n  "joints": [\n{rows}\n  ]\n}}\n'.encode()


def report_html(title: str, found: Found) -> str:
    """Return the page of a bring-up."""
    verdict = (
        "The wiring is determined." if found.is_complete else "The wiring is not determined; nothing else is written."
    )
    parts = [f"<h1>{html_text(title)}</h1>", f"<p>{verdict} {found.seconds:.0f} s with the robot.</p>"]
    parts += [f'<p class="warn">{html_text(problem)}</p>' for problem in found.problems]
    parts += [f'<p class="note">{html_text(note)}</p>' for note in [*found.notes, *_imu_lines(found)]]
    parts += ["<h2>Joints</h2>", text_table_html([_HEADER, *map(_row, found.channels)])]
    parts += _plots(found)
    return page_html(title, "\n".join(parts))


def _plots(found: Found) -> Iterator[str]:
    """Yield a plot of the torques of each limb, or a note that says what to install for it."""
    if not found.fits:
        return
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        yield f'<p class="note">No plots: {html_text(str(error))}; install the extra: pip install "rsl-rl-lib[sim]"</p>'
        return
    yield "<h2>Torques that hold the limbs</h2>"
    yield (
        '<p class="note">Dots: by the PD loops, while the joints moved slowly and the trunk was turned. Lines: what '
        "gravity, inertia and friction need if the joints are as found. They agree if the wiring is right.</p>"
    )
    for place, (members, samples, fit) in found.fits.items():
        figure = Figure(figsize=(11, 1.7 * len(members)), layout="constrained")
        for axes, i in zip(np.atleast_1d(figure.subplots(len(members), 1, sharex=True)), range(len(members))):
            channel = found.channels[members[i]]
            count = min(len(samples.torque), len(fit.predicted))
            axes.plot(samples.torque[:count, i], ".", color="#1f77b4", markersize=3)
            axes.plot(fit.predicted[:count, i], color="#d62728", linewidth=0.8)
            axes.set_ylabel("[N m]")
            axes.set_title(f"{channel.name} is {channel.joint}, sign {channel.sign:+d}", fontsize=9, loc="left")
        axes.set_xlabel("sample")
        yield f"<h3>{html_text(place)}</h3>{figure_html(f'torques of the {place} limb', figure, 80)}"
