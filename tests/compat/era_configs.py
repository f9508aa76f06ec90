"""Configurations as clients of each major version of rsl_rl write them. Imports nothing, so any version can run."""

HIDDEN = [16, 8]


def v1(**policy):
    recurrent = "rnn_type" in policy
    return {
        "seed": 1,
        "runner_class_name": "OnPolicyRunner",
        "init_member_classes": {},
        "algorithm": {"clip_param": 0.2, "entropy_coef": 0.01, "num_learning_epochs": 2, "num_mini_batches": 2},
        "policy": {"actor_hidden_dims": HIDDEN, "critic_hidden_dims": HIDDEN, "activation": "elu", **policy},
        "runner": {
            "policy_class_name": "ActorCriticRecurrent" if recurrent else "ActorCritic",
            "algorithm_class_name": "PPO",
            "num_steps_per_env": 6,
            "max_iterations": 3,
            "save_interval": 2,
            "experiment_name": "point/flat",
            "run_name": "",
            "resume": False,
            "load_run": -1,
            "checkpoint": -1,
            "resume_path": None,
        },
    }


def v2(**policy):
    name = "ActorCriticRecurrent" if "rnn_type" in policy else "ActorCritic"
    return {
        "seed": 1,
        "num_steps_per_env": 6,
        "save_interval": 2,
        "max_iterations": 3,
        "experiment_name": "point",
        "logger": "tensorboard",
        "empirical_normalization": True,
        "runner": {"record_interval": -1, "load_run": -1},
        "algorithm": {"class_name": "PPO", "num_learning_epochs": 2, "num_mini_batches": 2, "learning_rate": 5e-4},
        "policy": {
            "class_name": name, "actor_hidden_dims": HIDDEN, "critic_hidden_dims": HIDDEN, "activation": "elu",
            "init_noise_std": 0.5, **policy,
        },
    }  # fmt: skip


def v3(**policy):
    cfg = v2(**policy)
    del cfg["empirical_normalization"], cfg["runner"]
    cfg["policy"].update(actor_obs_normalization=True, critic_obs_normalization=True)
    cfg["obs_groups"] = {"policy": ["actor"], "critic": ["critic"]}
    cfg["algorithm"].update(rnd_cfg=None, symmetry_cfg=None)
    return cfg


def v4(**rnn):
    name = "RNNModel" if rnn else "MLPModel"
    network = {"class_name": name, "hidden_dims": HIDDEN, "activation": "elu", "obs_normalization": True, **rnn}
    std = {"stochastic": True, "init_noise_std": 0.5, "noise_std_type": "log", "state_dependent_std": False}
    return {
        "seed": 1,
        "num_steps_per_env": 6,
        "save_interval": 2,
        "run_name": "",
        "experiment_name": "point",
        "obs_groups": {"actor": ("actor",), "critic": ("critic",)},
        "algorithm": {"class_name": "PPO", "num_learning_epochs": 2, "num_mini_batches": 2},
        "actor": {**network, **std},
        "critic": dict(network),
    }


def v5(**rnn):
    cfg = v4(**rnn)
    for name in ("stochastic", "init_noise_std", "noise_std_type", "state_dependent_std"):
        del cfg["actor"][name]
    cfg["actor"]["distribution_cfg"] = {"class_name": "GaussianDistribution", "init_std": 0.5, "std_type": "scalar"}
    cfg.update(logger="tensorboard", check_for_nan=True, upload_model=True, clip_actions=None)
    return cfg


CONFIGS = {1: v1, 2: v2, 3: v3, 4: v4, 5: v5}
