/* Speed of light of dqn_cartpole: updates from a replay buffer, and greedy actions. */
#include "mlp.h"

static float q[SIZE] __attribute__((aligned(64)));
static float obs[N * D0], obs_next[N * D0], target[N];
static int best[N];

void set_target(const float *weights) { memcpy(q, weights, sizeof q); }

static inline int largest(const float *row)
{
    int at = 0;
    for (int c = 1; c < D3; c++)
        at = row[c] > row[at] ? c : at;
    return at;
}

/* One update per N rows; with `losses` null the rows are drawn here, as a user's loop would. */
void run_update(long n, const float *all_obs, const int *action, const float *reward,
                const float *done, const float *all_next, const long *rows, long n_all,
                float *losses)
{
    unsigned long state = 88172645463325252UL;
    long drawn[N];
    for (long k = 0; k < n; k++) {
        const long *row = drawn;
        if (losses)
            row = rows + k * N;
        else
            for (int r = 0; r < N; r++) {
                state ^= state << 13, state ^= state >> 7, state ^= state << 17;
                drawn[r] = (long)(state % (unsigned long)n_all);
            }
        for (int r = 0; r < N; r++) {
            memcpy(obs + r * D0, all_obs + row[r] * D0, sizeof(float) * D0);
            memcpy(obs_next + r * D0, all_next + row[r] * D0, sizeof(float) * D0);
        }
        forward(p, obs_next);
        for (int r = 0; r < N; r++)
            best[r] = largest(y + r * D3);
        forward(q, obs_next);
        for (int r = 0; r < N; r++)
            target[r] = reward[row[r]] + 0.99f * (1.0f - done[row[r]]) * y[r * D3 + best[r]];
        forward(p, obs);
        memset(gy, 0, sizeof gy);
        float loss = 0.0f;
        for (int r = 0; r < N; r++) {
            const int at = r * D3 + action[row[r]];
            const float d = y[at] - target[r], a = fabsf(d);
            loss += a < 1.0f ? 0.5f * d * d : a - 0.5f;
            gy[at] = (a < 1.0f ? d : copysignf(1.0f, d)) / N;
        }
        backward_and_update(obs, 1e-2f);
        if (losses)
            losses[k] = loss / N;
    }
}

void run_act(long n, const float *all_obs, int ring, int *actions, float *values)
{
    for (long k = 0; k < n; k++) {
        float *out = values + k % ring * D3;
        forward_one(all_obs + k % ring * D0, out);
        actions[k % ring] = largest(out);
    }
}
