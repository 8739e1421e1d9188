/* STREAM's copy and triad, for scripts/check_calibration.py: plain loops, and the same with stores that bypass the caches. */

#include <stddef.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

void copy(float *restrict to, const float *restrict from, size_t count) {
    #pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i++) to[i] = from[i];
}

void triad(float *restrict to, const float *restrict first, const float *restrict second, size_t count) {
    #pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i++) to[i] = first[i] + 0.5f * second[i];
}

#ifdef __SSE2__
void copy_bypassing(float *restrict to, const float *restrict from, size_t count) {
    #pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i += 4) _mm_stream_ps(to + i, _mm_load_ps(from + i));
}

void triad_bypassing(float *restrict to, const float *restrict first, const float *restrict second, size_t count) {
    const __m128 half = _mm_set1_ps(0.5f);
    #pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i += 4)
        _mm_stream_ps(to + i, _mm_add_ps(_mm_load_ps(first + i), _mm_mul_ps(half, _mm_load_ps(second + i))));
}
#endif
