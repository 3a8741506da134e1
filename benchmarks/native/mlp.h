/* A perceptron with two hidden layers; N, D0, D1, D2, D3 come from the compiler's command line. */
#ifndef SPEED_OF_LIGHT_MLP_H
#define SPEED_OF_LIGHT_MLP_H

#include "layers.h"

enum {
    W1 = 0,
    B1 = W1 + D1 * D0,
    W2 = B1 + D1,
    B2 = W2 + D2 * D1,
    W3 = B2 + D2,
    B3 = W3 + D3 * D2,
    SIZE = B3 + D3
};

static float p[SIZE] __attribute__((aligned(64)));
static float g[SIZE] __attribute__((aligned(64)));
static float m[SIZE] __attribute__((aligned(64)));
static float v[SIZE] __attribute__((aligned(64)));
static float h1[N * D1] __attribute__((aligned(64)));
static float h2[N * D2] __attribute__((aligned(64)));
static float y[N * D3] __attribute__((aligned(64)));
static float gh1[N * D1] __attribute__((aligned(64)));
static float gh2[N * D2] __attribute__((aligned(64)));
static float gy[N * D3] __attribute__((aligned(64)));
static long t_adam;

void reset(const float *weights)
{
    memcpy(p, weights, sizeof p);
    memset(m, 0, sizeof m);
    memset(v, 0, sizeof v);
    t_adam = 0;
}

static inline void forward(const float *q, const float *x)
{
    linear(N, D0, D1, x, q + W1, q + B1, h1, 1);
    linear(N, D1, D2, h1, q + W2, q + B2, h2, 1);
    linear(N, D2, D3, h2, q + W3, q + B3, y, 0);
}

static inline void forward_one(const float *x, float *out)
{
    linear_one(D0, D1, x, p + W1, p + B1, h1, 1);
    linear_one(D1, D2, h1, p + W2, p + B2, h2, 1);
    linear_one(D2, D3, h2, p + W3, p + B3, out, 0);
}

static inline void backward_and_update(const float *x, float eps)
{
    linear_grad_parameters(N, D2, D3, gy, h2, g + W3, g + B3);
    linear_grad_input(N, D2, D3, gy, p + W3, h2, gh2);
    linear_grad_parameters(N, D1, D2, gh2, h1, g + W2, g + B2);
    linear_grad_input(N, D1, D2, gh2, p + W2, h1, gh1);
    linear_grad_parameters(N, D0, D1, gh1, x, g + W1, g + B1);
    adam(SIZE, p, g, m, v, eps, ++t_adam);
}

#endif
