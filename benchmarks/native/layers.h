/* The arithmetic of the straight-line loops: fixed shapes, no dispatch, no checks.
 *
 * Row-major matrices; BLAS is column-major, so the operands of every product are swapped.
 * Parameters and gradients are flat arrays, so that an update is one loop.
 */
#ifndef SPEED_OF_LIGHT_LAYERS_H
#define SPEED_OF_LIGHT_LAYERS_H

#include <math.h>
#include <string.h>

#ifndef BLAS_INT
#define BLAS_INT int
#endif

typedef void (*sgemm_function)(char *, char *, BLAS_INT *, BLAS_INT *, BLAS_INT *, float *,
                               float *, BLAS_INT *, float *, BLAS_INT *, float *, float *,
                               BLAS_INT *);

static sgemm_function sgemm;

void set_sgemm(void *function) { memcpy(&sgemm, &function, sizeof sgemm); }

static inline void product(char *ta, char *tb, BLAS_INT m, BLAS_INT n, BLAS_INT k, const float *a,
                           BLAS_INT lda, const float *b, BLAS_INT ldb, float *c)
{
    float one = 1.0f, zero = 0.0f;
    sgemm(ta, tb, &m, &n, &k, &one, (float *)a, &lda, (float *)b, &ldb, &zero, c, &m);
}

/* y[n, o] = x[n, i] w[o, i]^T + b, then relu if asked for */
static inline void linear(int n, int i, int o, const float *x, const float *w, const float *b,
                          float *restrict y, int relu)
{
    product("T", "N", o, n, i, w, i, x, i, y);
    for (int r = 0; r < n; r++)
        for (int c = 0; c < o; c++) {
            float v = y[r * o + c] + b[c];
            y[r * o + c] = relu && v < 0.0f ? 0.0f : v;
        }
}

/* gw[o, i] = gy[n, o]^T x[n, i]; gb = column sums of gy */
static inline void linear_grad_parameters(int n, int i, int o, const float *gy, const float *x,
                                          float *gw, float *restrict gb)
{
    product("N", "T", i, o, n, x, i, gy, o, gw);
    memset(gb, 0, sizeof(float) * o);
    for (int r = 0; r < n; r++)
        for (int c = 0; c < o; c++)
            gb[c] += gy[r * o + c];
}

/* gx[n, i] = (gy[n, o] w[o, i]) where the relu that gave x let it through */
static inline void linear_grad_input(int n, int i, int o, const float *gy, const float *w,
                                     const float *x, float *restrict gx)
{
    product("N", "N", i, n, o, w, i, gy, o, gx);
    for (int k = 0; k < n * i; k++)
        gx[k] = x[k] > 0.0f ? gx[k] : 0.0f;
}

/* y[o] = w[o, i] x[i] + b: one sample, where a call of BLAS would cost more than the product */
static inline void linear_one(int i, int o, const float *restrict x, const float *restrict w,
                              const float *restrict b, float *restrict y, int relu)
{
    for (int r = 0; r < o; r++) {
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int c = 0; c < i; c++)
            sum += w[r * i + c] * x[c];
        sum += b[r];
        y[r] = relu && sum < 0.0f ? 0.0f : sum;
    }
}

/* mean over rows of -log softmax(y)[t]; gy becomes its gradient */
static inline float softmax_cross_entropy(int n, int o, const float *y, const int *t, float *gy)
{
    float loss = 0.0f;
    for (int r = 0; r < n; r++) {
        const float *row = y + r * o;
        float *grad = gy + r * o;
        float largest = row[0], sum = 0.0f;
        for (int c = 1; c < o; c++)
            largest = row[c] > largest ? row[c] : largest;
        for (int c = 0; c < o; c++) {
            grad[c] = expf(row[c] - largest);
            sum += grad[c];
        }
        loss -= row[t[r]] - largest - logf(sum);
        for (int c = 0; c < o; c++)
            grad[c] /= sum * n;
        grad[t[r]] -= 1.0f / n;
    }
    return loss / n;
}

/* Adam as Chainer writes it: both bias corrections in the step size, eps beside the plain root */
static inline void adam(int size, float *restrict p, const float *restrict g, float *restrict m,
                        float *restrict v, float eps, long t)
{
    const float step = (float)(1e-3 * sqrt(1.0 - pow(0.999, t)) / (1.0 - pow(0.9, t)));
    for (int k = 0; k < size; k++) {
        m[k] += 0.1f * (g[k] - m[k]);
        v[k] += 0.001f * (g[k] * g[k] - v[k]);
        p[k] -= step * m[k] / (sqrtf(v[k]) + eps);
    }
}

#endif
