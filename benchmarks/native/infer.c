/* Speed of light of infer_tiny: n forward passes of one sample. */
#include "mlp.h"

void run(long n, const float *x, int ring, float *out)
{
    for (long k = 0; k < n; k++)
        forward_one(x + k % ring * D0, out + k % ring * D3);
}
