/* The policy of the task $task as C99. It needs math.h alone, allocates nothing, and has no global state.

       policy_state state;
       policy_readings readings;
       float targets[POLICY_NUM_JOINTS];

       if (!policy_init(&state, joint_names)) ...   once, with the joints in the order of your robot
       policy_reset(&state);                        at the start of each episode
       for (;;) {                                   once in POLICY_CONTROL_PERIOD seconds
           policy_clear(&readings);                 all readings are missing
           ...                                      fill in what your robot has measured
           switch (policy_step(&state, &readings, targets)) {
           case POLICY_RUNNING:
           case POLICY_HELD: ...                    give the targets to PD loops with state.stiffness and
                                                    state.damping, up to state.torque_limits
           case POLICY_STOPPED: ...                 set the stiffness of all joints to zero, and keep the damping
           case POLICY_NOT_STARTED: ...             do not start; state.problem says why
           }
       }

   A reading that is not finite or larger than any in training cannot be used, nor can an output of the network that is
   not finite. The policy then holds its last targets, in at most POLICY_MAX_HELD steps in a row, and stops. A reading
   that is too old is missing: leave it as policy_clear made it. Commands are clipped to the range of the training, and
   targets to state.target_limits.

   Compile it without -ffast-math, which assumes that all numbers are finite. */
#ifndef POLICY_H
#define POLICY_H

#ifdef __cplusplus
extern "C" {
#endif

#define POLICY_NUM_JOINTS $num_joints
#define POLICY_NUM_OBS $num_obs
#define POLICY_CONTROL_PERIOD $control_period /* [s] */
#define POLICY_MAX_HELD 5 /* steps in a row without usable readings */

typedef enum {
    POLICY_RUNNING, /* the targets are the action for these readings */
    POLICY_HELD, /* the readings cannot be used: the targets are those of the step before */
    POLICY_STOPPED, /* too many steps in a row were held; until a reset, no targets are written */
    POLICY_NOT_STARTED /* the first readings of an episode cannot be used; no targets are written */
} policy_status;

/* What the robot measured, its joints in its own order. The policy reads
   $sensed. */
typedef struct {
    float command[3]; /* wanted velocity: forward, left [m/s], yaw rate [rad/s] */
    float base_quat[4]; /* orientation of the IMU, $quaternion_order */
    float base_ang_vel[3]; /* of the IMU, in its frame [$ang_vel_unit] */
    float base_lin_vel[3]; /* of the base, in its frame [m/s] */
    float joint_pos[POLICY_NUM_JOINTS]; /* [$pos_unit] */
    float joint_vel[POLICY_NUM_JOINTS]; /* [$vel_unit] */
    float gait_clock[2]; /* sine and cosine of the gait's phase; if missing, the clock runs with the steps of the episode */
} policy_readings;

/* The recurrent states of the network; one unused number without memory. */
typedef struct {
    float units[$num_states];
} policy_memory;

/* The joint values that robots need are in the robot's order and set by policy_init: read them, and change none. */
typedef struct {
    float default_joint_pos[POLICY_NUM_JOINTS]; /* where the joints should be at the start [$pos_unit] */
    float stiffness[POLICY_NUM_JOINTS]; /* [N m/rad] */
    float damping[POLICY_NUM_JOINTS]; /* [N m s/rad] */
    float torque_limits[POLICY_NUM_JOINTS]; /* [N m] */
    float target_limits[POLICY_NUM_JOINTS][2]; /* lowest and highest joint target [$pos_unit] */
    const char *problem; /* why the last step was held, or the policy did not start; or 0 */
    unsigned long calls; /* steps with targets; a reset keeps the four counts */
    unsigned long held_calls; /* those of them that returned the last ones */
    unsigned long clipped_commands; /* steps with a command out of its range */
    unsigned long clamped_targets; /* joint targets out of their limits */
    /* The rest belongs to the functions below. */
    unsigned long steps; /* of this episode */
    int held; /* steps in a row without usable readings */
    int started; /* whether the episode has targets */
    int robot_index[POLICY_NUM_JOINTS]; /* of each joint of the policy */
    float command[3]; /* that the network read last */
    float last_action[POLICY_NUM_JOINTS];
    float last_obs[POLICY_NUM_OBS];
    float targets[POLICY_NUM_JOINTS]; /* of the last step, in the robot's order */
    policy_memory memory;
} policy_state;

/* Prepare a state for a robot whose joints are listed in this order; 0 stands for the policy's own order, which is
   policy_joint_names. Return 1, or 0 if the names are not those of the policy's joints: then do not use the state. */
int policy_init(policy_state *state, const char *const *joint_names);

/* Start an episode: clear the last action, histories, memory and a stop. */
void policy_reset(policy_state *state);

/* Mark all readings as missing. */
void policy_clear(policy_readings *readings);

/* Compute the joint targets [$pos_unit] of one control step, in the robot's order. */
policy_status policy_step(policy_state *state, const policy_readings *readings, float *targets);

/* Compute only the network: an observation of POLICY_NUM_OBS numbers to an action of POLICY_NUM_JOINTS. The memory is
   changed; it starts with zeros. */
void policy_network(const float *obs, policy_memory *memory, float *action);

extern const char *const policy_joint_names[POLICY_NUM_JOINTS];

#ifdef __cplusplus
}
#endif

#endif
