/* The policy of the task $task as C99; $header says how to use it. */
#include "$header"

#include <math.h>

#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "compile this file without -ffast-math: it has to recognise numbers that are not finite"
#endif

#define NUM_JOINTS POLICY_NUM_JOINTS
#define NUM_OBS POLICY_NUM_OBS
#define NUM_STATES $num_states
#define MAX_TERM (NUM_JOINTS > 3 ? NUM_JOINTS : 3)

/* ---- The network ---- */

$linear_layer

$weights

$int8_product/* Eight sums at a time, which rounds less than one and lets compilers use vector instructions. */
static float dot(const float *a, const float *b, int size)
{
    float sums[8] = {0.0f};
    int i = 0;

    for (; i + 8 <= size; i += 8)
        for (int k = 0; k < 8; k++)
            sums[k] += a[i + k] * b[i + k];
    for (; i < size; i++)
        sums[0] += a[i] * b[i];
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

static void linear(const linear_layer *layer, const float *x, float *y)
{
    for (int i = 0; i < layer->outputs; i++)
        y[i] = layer->bias[i] + $row_product;
}

static void copy(const float *from, float *to, int size)
{
    for (int i = 0; i < size; i++)
        to[i] = from[i];
}

$functions
void policy_network(const float *obs, policy_memory *memory, float *action)
{
    float x[$width], y[$width];

$network
}

/* ---- From readings to the observation, and from the action to joint targets ---- */

const char *const policy_joint_names[NUM_JOINTS] = {
$joint_names
};

/* Joint values of the policy, in its order. Its angle is sign * (robot's angle - zero). */
$joints

static const float imu_mounting[4] = {$imu_mounting}; /* base to IMU, w x y z */
static const int quaternion_order[4] = {$quaternion_index}; /* places of w x y z in the reading */
static const float pos_unit = $pos_factor, vel_unit = $vel_factor, ang_vel_unit = $ang_vel_factor; /* in SI units */

static const int reads_command = $reads_command;
static const float action_clip = $action_clip;
static const float lowest_command[3] = {$lowest_command}, highest_command[3] = {$highest_command};
static const float largest_change[3] = {$largest_change}; /* of the command in a control step; 0 for no limit */
static const double clock_period = $clock_period, clock_dead_zone = $clock_dead_zone; /* [s]; size of a command, negative for none */
static const float largest_number = $largest_number; /* of the observation */

typedef enum { BASE_LIN_VEL, BASE_ANG_VEL, GRAVITY, COMMAND, JOINT_POS, JOINT_VEL, ACTION, GAIT_CLOCK } term_name;

/* The terms of the observation: control steps in the history, factors, largest value before them. */
static const struct {
    term_name name;
    int size, history;
    float scale[MAX_TERM], largest;
    const char *problem;
} terms[] = {
$terms
};

static float clamp(float x, float low, float high)
{
    return x < low ? low : x > high ? high : x;
}

static int all_finite(const float *x, int size)
{
    for (int i = 0; i < size; i++)
        if (!isfinite(x[i]))
            return 0;
    return 1;
}

/* Turn a vector by the inverse of a quaternion w x y z. */
static void rotate_back(const float *quat, const float *vector, float *result)
{
    const float w = quat[0], x = quat[1], y = quat[2], z = quat[3];
    const float cross[3] = {2.0f * (y * vector[2] - z * vector[1]), 2.0f * (z * vector[0] - x * vector[2]),
                            2.0f * (x * vector[1] - y * vector[0])};

    result[0] = vector[0] - w * cross[0] + (y * cross[2] - z * cross[1]);
    result[1] = vector[1] - w * cross[1] + (z * cross[0] - x * cross[2]);
    result[2] = vector[2] - w * cross[2] + (x * cross[1] - y * cross[0]);
}

/* Multiply two quaternions w x y z. */
static void multiply(const float *a, const float *b, float *product)
{
    product[0] = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3];
    product[1] = a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2];
    product[2] = a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1];
    product[3] = a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0];
}

/* Compute the direction of gravity in the base frame; return 0 if the reading is no rotation. */
static int gravity(const float *reading, float *result)
{
    static const float down[3] = {0.0f, 0.0f, -1.0f};
    float imu_quat[4], base_quat[4];

    for (int i = 0; i < 4; i++)
        imu_quat[i] = reading[quaternion_order[i]];
    multiply(imu_quat, imu_mounting, base_quat);
    rotate_back(base_quat, down, result);
    return fabsf(sqrtf(dot(imu_quat, imu_quat, 4)) - 1.0f) < 0.01f; /* false for NaN */
}

/* Compute the command that the network reads next; return 0 if the reading is not finite. */
static int next_command(const policy_state *state, const float *wanted, float *command)
{
    for (int i = 0; i < 3; i++) {
        const float trained = clamp(wanted[i], lowest_command[i], highest_command[i]), last = state->command[i];
        const float change = clamp(trained - last, -largest_change[i], largest_change[i]);
        command[i] = largest_change[i] > 0.0f ? last + change : trained;
    }
    return all_finite(wanted, 3);
}

/* Compute sine and cosine of the gait's phase, or zeros for a command to stand. The angle is a double because it grows
   with the time. */
static void gait_clock(unsigned long steps, const float *reading, const float *command, float *value)
{
    const double angle = 6.283185307179586 * (double)steps * POLICY_CONTROL_PERIOD / clock_period;
    const double size = (double)dot(command, command, 3);
    const int moves = clock_dead_zone < 0.0 || size > clock_dead_zone * clock_dead_zone;
    const int sensed = all_finite(reading, 2);

    value[0] = !moves ? 0.0f : sensed ? reading[0] : (float)sin(angle);
    value[1] = !moves ? 0.0f : sensed ? reading[1] : (float)cos(angle);
}

/* Compute a term of one control step in SI units, in the policy's order of joints; return 0 if a reading cannot be used. */
static int sense(const policy_state *state, const policy_readings *readings, const float *command, term_name name,
                 float *value)
{
    switch (name) {
    case BASE_LIN_VEL:
        copy(readings->base_lin_vel, value, 3);
        return 1;
    case BASE_ANG_VEL:
        rotate_back(imu_mounting, readings->base_ang_vel, value);
        for (int i = 0; i < 3; i++)
            value[i] *= ang_vel_unit;
        return 1;
    case GRAVITY:
        return gravity(readings->base_quat, value);
    case COMMAND:
        copy(command, value, 3);
        return 1;
    case JOINT_POS:
        for (int i = 0; i < NUM_JOINTS; i++) {
            const float angle = readings->joint_pos[state->robot_index[i]] * pos_unit;
            value[i] = joint_signs[i] * (angle - joint_zeros[i]) - default_joint_pos[i];
        }
        return 1;
    case JOINT_VEL:
        for (int i = 0; i < NUM_JOINTS; i++)
            value[i] = joint_signs[i] * (readings->joint_vel[state->robot_index[i]] * vel_unit);
        return 1;
    case ACTION:
        copy(state->last_action, value, NUM_JOINTS);
        return 1;
    case GAIT_CLOCK:
        gait_clock(state->steps, readings->gait_clock, command, value);
        return 1;
    }
    return 0;
}

/* Compute the observation; return why it cannot be used, or 0. Histories have the oldest step first, and at the start
   of an episode all steps are this one. */
static const char *observe(const policy_state *state, const policy_readings *readings, const float *command,
                           float *obs)
{
    const float *last = state->last_obs;
    float value[MAX_TERM];

    for (unsigned t = 0; t < sizeof(terms) / sizeof(terms[0]); t++) {
        const int size = terms[t].size, past = size * (terms[t].history - 1);
        if (!sense(state, readings, command, terms[t].name, value))
            return terms[t].problem;
        for (int i = 0; i < size; i++) {
            const float scaled = value[i] * terms[t].scale[i];
            if (!(fabsf(value[i]) <= terms[t].largest && fabsf(scaled) <= largest_number)) /* true for NaN */
                return terms[t].problem;
            obs[past + i] = scaled;
        }
        for (int i = 0; i < past; i++)
            obs[i] = state->started ? last[size + i] : obs[past + i % size];
        obs += past + size;
        last += past + size;
    }
    return 0;
}

/* Compute the next targets; an error, whose reason is returned, changes nothing. */
static const char *next_targets(policy_state *state, const policy_readings *readings)
{
    policy_memory memory = state->memory;
    float obs[NUM_OBS], action[NUM_JOINTS], command[3];
    const char *problem;

    if (!next_command(state, readings->command, command) && reads_command)
        return "command is missing or not finite";
    problem = observe(state, readings, command, obs);
    if (problem)
        return problem;
    policy_network(obs, &memory, action);
    if (!all_finite(action, NUM_JOINTS) || !all_finite(memory.units, NUM_STATES))
        return "the output of the network is not finite";

    for (int i = 0; i < NUM_JOINTS; i++) {
        const float clipped = clamp(action[i], -action_clip, action_clip);
        const float wanted = default_joint_pos[i] + action_scale[i] * clipped;
        const float target = clamp(wanted, lowest_target[i], highest_target[i]);
        state->last_action[i] = clipped;
        state->clamped_targets += target < wanted || target > wanted;
        state->targets[state->robot_index[i]] = (joint_signs[i] * target + joint_zeros[i]) / pos_unit;
    }
    for (int i = 0; i < 3; i++)
        if (readings->command[i] < lowest_command[i] || readings->command[i] > highest_command[i]) {
            state->clipped_commands++;
            break;
        }
    copy(command, state->command, 3);
    copy(obs, state->last_obs, NUM_OBS);
    state->memory = memory;
    return 0;
}

policy_status policy_step(policy_state *state, const policy_readings *readings, float *targets)
{
    const char *problem;

    if (state->held > POLICY_MAX_HELD)
        return POLICY_STOPPED;
    problem = next_targets(state, readings);
    if (problem) {
        state->problem = problem;
        if (!state->started)
            return POLICY_NOT_STARTED;
        if (++state->held > POLICY_MAX_HELD)
            return POLICY_STOPPED;
        state->held_calls++;
    } else {
        state->held = 0;
        state->started = 1;
    }
    state->calls++;
    state->steps++;
    copy(state->targets, targets, NUM_JOINTS);
    return problem ? POLICY_HELD : POLICY_RUNNING;
}

void policy_reset(policy_state *state)
{
    static const policy_memory empty = {{0.0f}};

    for (int i = 0; i < NUM_JOINTS; i++)
        state->last_action[i] = 0.0f;
    for (int i = 0; i < 3; i++)
        state->command[i] = 0.0f;
    state->memory = empty;
    state->steps = 0;
    state->held = state->started = 0;
    state->problem = 0;
}

void policy_clear(policy_readings *readings)
{
    for (int i = 0; i < 3; i++)
        readings->command[i] = readings->base_ang_vel[i] = readings->base_lin_vel[i] = NAN;
    for (int i = 0; i < 4; i++)
        readings->base_quat[i] = NAN;
    for (int i = 0; i < 2; i++)
        readings->gait_clock[i] = NAN;
    for (int i = 0; i < NUM_JOINTS; i++)
        readings->joint_pos[i] = readings->joint_vel[i] = NAN;
}

static int same_text(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

int policy_init(policy_state *state, const char *const *joint_names)
{
    static const policy_state empty = {0};

    *state = empty;
    for (int i = 0; i < NUM_JOINTS; i++) {
        int place = joint_names ? -1 : i;
        for (int k = 0; joint_names && k < NUM_JOINTS; k++)
            if (same_text(joint_names[k], policy_joint_names[i]))
                place = k;
        if (place < 0)
            return 0;
        const float low = (joint_signs[i] * lowest_target[i] + joint_zeros[i]) / pos_unit;
        const float high = (joint_signs[i] * highest_target[i] + joint_zeros[i]) / pos_unit;
        state->robot_index[i] = place;
        state->default_joint_pos[place] = (joint_signs[i] * default_joint_pos[i] + joint_zeros[i]) / pos_unit;
        state->stiffness[place] = joint_stiffness[i];
        state->damping[place] = joint_damping[i];
        state->torque_limits[place] = joint_torque_limits[i];
        state->target_limits[place][0] = low < high ? low : high;
        state->target_limits[place][1] = low < high ? high : low;
    }
    return 1;
}
