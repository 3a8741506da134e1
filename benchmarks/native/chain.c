/* Speed of light of deep_chain: LAYERS x (linear + relu) of D features, sum, SGD. */
#include "layers.h"

enum { SIZE = LAYERS * (D * D + D) };

static float p[SIZE] __attribute__((aligned(64)));
static float g[SIZE] __attribute__((aligned(64)));
static float h[LAYERS + 1][D] __attribute__((aligned(64)));

void reset(const float *weights) { memcpy(p, weights, sizeof p); }

void run(long n, const float *x, int ring, float rate, float *losses)
{
    for (long k = 0; k < n; k++) {
        memcpy(h[0], x + k % ring * D, sizeof h[0]);
        for (int layer = 0; layer < LAYERS; layer++) {
            const float *w = p + layer * (D * D + D);
            linear_one(D, D, h[layer], w, w + D * D, h[layer + 1], 1);
        }
        float loss = 0.0f, grad[D], below[D];
        for (int c = 0; c < D; c++) {
            loss += h[LAYERS][c];
            grad[c] = 1.0f;
        }
        for (int layer = LAYERS - 1; layer >= 0; layer--) {
            const float *w = p + layer * (D * D + D);
            float *gw = g + layer * (D * D + D);
            memset(below, 0, sizeof below);
            for (int r = 0; r < D; r++) {
                const float gr = h[layer + 1][r] > 0.0f ? grad[r] : 0.0f;
                gw[D * D + r] = gr;
                for (int c = 0; c < D; c++) {
                    gw[r * D + c] = gr * h[layer][c];
                    below[c] += gr * w[r * D + c];
                }
            }
            memcpy(grad, below, sizeof grad);
        }
        for (int i = 0; i < SIZE; i++)
            p[i] -= rate * g[i];
        if (losses)
            losses[k] = loss;
    }
}
