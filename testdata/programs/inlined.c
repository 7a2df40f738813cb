/* Three levels of inlined functions, with loops and a real call inside. */
#include <stdio.h>

struct vec3 {
	double x, y, z;
};

static inline double dot(struct vec3 a, struct vec3 b)
{
	return a.x * b.x + a.y * b.y + a.z * b.z;
}

__attribute__((noinline)) static double root(double value)
{
	double guess = value / 2 + 0.5;

	for (int i = 0; i < 6; i++)
		guess = (guess + value / guess) / 2;
	return guess;
}

static inline double norm(struct vec3 a)
{
	double square = dot(a, a);

	return square > 1e-9 ? root(square) : 0;
}

static inline struct vec3 unit(struct vec3 a)
{
	double length = norm(a);

	if (length == 0)
		return a;
	return (struct vec3){a.x / length, a.y / length, a.z / length};
}

__attribute__((noinline)) static double total(const struct vec3 *v, int count)
{
	double sum = 0;

	for (int i = 0; i < count; i++) {
		struct vec3 u = unit(v[i]);

		if (u.x > u.y)
			sum += dot(u, v[(i + 1) % count]);
		else
			sum -= norm(v[(i + 2) % count]);
	}
	return sum;
}

int main(void)
{
	struct vec3 v[24];

	for (int i = 0; i < 24; i++)
		v[i] = (struct vec3){i % 5, i % 7, i % 3};
	printf("%f\n", total(v, 24));
	return 0;
}
