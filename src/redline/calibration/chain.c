/* Repeated multiply-adds over an array, out of place: `repeats` of them for each element that is read and written. */

#if defined(__AVX512F__)
#define WIDTH 16
#elif defined(__AVX__)
#define WIDTH 8
#else
#define WIDTH 4
#endif

/* So many chains at once hide the latency of one, and fit into 16 registers. */
#define CHAINS 12

typedef float vector __attribute__((vector_size(4 * WIDTH)));

/* Elements that are worked on together: the length of the arrays is a multiple of it. */
long block(void) { return CHAINS * WIDTH; }

void chain(const float *from, float *to, long count, long repeats, int threads)
{
    const vector scale = (vector){0} + 0.5f, shift = (vector){0} + 1.0f;

#pragma omp parallel for num_threads(threads) schedule(static)
    for (long start = 0; start < count; start += CHAINS * WIDTH) {
        const vector *in = (const vector *)(from + start);
        vector *out = (vector *)(to + start);
        vector value[CHAINS];
        for (int i = 0; i < CHAINS; i++)
            value[i] = in[i];
        for (long repeat = 0; repeat < repeats; repeat++)
            for (int i = 0; i < CHAINS; i++)
                value[i] = value[i] * scale + shift;
        for (int i = 0; i < CHAINS; i++)
            out[i] = value[i];
    }
}
