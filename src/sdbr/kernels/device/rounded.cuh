/* Numbers whose products round before they are added to anything, as NumPy's do: those of the updates. On the CPU their
 * unit is compiled so (ROUNDED_UNITS of setup.py); a compiler for GPUs can be told that of a whole program alone. */
#ifndef SDBR_ROUNDED_CUH
#define SDBR_ROUNDED_CUH
#if defined(__CUDACC__)

SDBR_INLINE float sdbr_rounded_product(float a, float b) { return __fmul_rn(a, b); }
SDBR_INLINE double sdbr_rounded_product(double a, double b) { return __dmul_rn(a, b); }

template <class F> struct sdbr_rounded {
    F x;
    sdbr_rounded() = default;
    __device__ sdbr_rounded(F value) : x(value) {}
    template <class U> __device__ explicit operator U() const { return (U)x; }

    friend __device__ sdbr_rounded operator*(sdbr_rounded a, sdbr_rounded b) { return sdbr_rounded_product(a.x, b.x); }
    friend __device__ sdbr_rounded operator/(sdbr_rounded a, sdbr_rounded b) { return a.x / b.x; }
    friend __device__ sdbr_rounded operator+(sdbr_rounded a, sdbr_rounded b) { return a.x + b.x; }
    friend __device__ sdbr_rounded operator-(sdbr_rounded a, sdbr_rounded b) { return a.x - b.x; }
    friend __device__ bool operator<(sdbr_rounded a, sdbr_rounded b) { return a.x < b.x; }
    friend __device__ bool operator>(sdbr_rounded a, sdbr_rounded b) { return a.x > b.x; }
    friend __device__ bool operator>=(sdbr_rounded a, sdbr_rounded b) { return a.x >= b.x; }
    friend __device__ bool operator!=(sdbr_rounded a, sdbr_rounded b) { return a.x != b.x; }
    friend __device__ sdbr_rounded sqrtf(sdbr_rounded a) { return ::sqrtf(a.x); }
    friend __device__ sdbr_rounded sqrt(sdbr_rounded a) { return ::sqrt(a.x); }
    __device__ sdbr_rounded &operator+=(sdbr_rounded a) { return *this = *this + a; }
    __device__ sdbr_rounded &operator*=(sdbr_rounded a) { return *this = *this * a; }
};

#endif
#endif
