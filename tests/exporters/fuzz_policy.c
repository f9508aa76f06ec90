/* Calls a policy with readings of every kind and checks what it promises of statuses, targets and counts.

   Arguments: number of steps, seed. Exit code 1 and a line for the first promise that is broken. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"

static uint32_t random_state;

static uint32_t draw(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

/* Any bit pattern in ``wild`` of 64 numbers, otherwise a number as a sensor gives it. */
static float number(int wild)
{
    const uint32_t bits = draw();
    float value;

    if (draw() % 64 < (uint32_t)wild)
        memcpy(&value, &bits, sizeof value);
    else
        value = (float)(bits % 20001) / 10000.0f - 1.0f;
    return value;
}

static void fill(float *values, int size, int wild)
{
    for (int i = 0; i < size; i++)
        values[i] = number(wild);
}

static void fail(const char *what, long step)
{
    printf("step %ld: %s\n", step, what);
    exit(1);
}

int main(int argc, char **argv)
{
    const long steps = argc > 1 ? atol(argv[1]) : 1000;
    unsigned long seen[4] = {0};
    policy_state state;
    policy_readings readings;
    float targets[POLICY_NUM_JOINTS];
    int held = 0, started = 0, wild = 0;

    random_state = argc > 2 ? (uint32_t)atol(argv[2]) + 1u : 1u;
    if (!policy_init(&state, policy_joint_names))
        fail("the policy's own joint names are refused", 0);
    for (long step = 0; step < steps; step++) {
        float length;

        if (draw() % 16 == 0) /* faults come in bursts */
            wild = (int)(draw() % 3) * (int)(draw() % 16);
        if (draw() % 200 == 0) {
            policy_reset(&state);
            held = started = 0;
        }
        policy_clear(&readings);
        if (draw() % 64 != 0)
            fill(readings.command, 3, wild);
        fill(readings.base_quat, 4, 0);
        length = sqrtf(readings.base_quat[0] * readings.base_quat[0] + readings.base_quat[1] * readings.base_quat[1] +
                       readings.base_quat[2] * readings.base_quat[2] + readings.base_quat[3] * readings.base_quat[3]);
        for (int i = 0; i < 4; i++)
            readings.base_quat[i] /= length;
        if (draw() % 64 < (uint32_t)wild)
            readings.base_quat[draw() % 4] = number(1);
        fill(readings.base_ang_vel, 3, wild);
        fill(readings.base_lin_vel, 3, wild);
        fill(readings.joint_pos, POLICY_NUM_JOINTS, wild);
        fill(readings.joint_vel, POLICY_NUM_JOINTS, wild);
        if (draw() % 2)
            fill(readings.gait_clock, 2, wild);
        for (int i = 0; i < POLICY_NUM_JOINTS; i++)
            targets[i] = 1234.0f;

        const policy_status status = policy_step(&state, &readings, targets);
        const int writes = status == POLICY_RUNNING || status == POLICY_HELD;
        if (status > POLICY_NOT_STARTED)
            fail("the status is none", step);
        seen[status]++;
        for (int i = 0; i < POLICY_NUM_JOINTS; i++) {
            if (writes && !(targets[i] >= state.target_limits[i][0] && targets[i] <= state.target_limits[i][1]))
                fail("a target is out of its limits", step);
            if (!writes && (targets[i] < 1234.0f || targets[i] > 1234.0f))
                fail("targets are written although the robot must not move", step);
        }
        held = status == POLICY_RUNNING ? 0 : held + (status != POLICY_NOT_STARTED);
        if (status == POLICY_RUNNING)
            started = 1;
        if (started == (status == POLICY_NOT_STARTED))
            fail("the policy is started and not started", step);
        if ((held > POLICY_MAX_HELD) != (status == POLICY_STOPPED))
            fail("the policy holds for another number of steps than it says", step);
        if (status != POLICY_RUNNING && !state.problem)
            fail("there is no reason", step);
    }
    printf("%lu %lu %lu %lu\n", seen[0], seen[1], seen[2], seen[3]);
    return state.calls == seen[0] + seen[1] && state.held_calls == seen[1] ? 0 : 1;
}
