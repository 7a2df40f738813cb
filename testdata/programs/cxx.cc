// C++: virtual calls, templates, std::sort and std::map, exceptions: caught in the same
// function, through many frames, in recursion, rethrown, out of a destructor's scope.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct animal {
	virtual ~animal() = default;
	virtual int sound(int volume) const = 0;
};
struct dog : animal {
	int sound(int volume) const override
	{
		return volume * 2;
	}
};
struct cat : animal {
	int sound(int volume) const override
	{
		if (volume > 40)
			throw std::runtime_error("too loud");
		return volume - 1;
	}
};

struct guard {
	int *counter;
	~guard()
	{
		++*counter;
	}
};

static int released;

__attribute__((noinline)) static int descend(int depth, int fail_at)
{
	guard g{&released};
	if (depth == fail_at)
		throw depth;
	if (depth == 0)
		return 0;
	return descend(depth - 1, fail_at) + 1;
}

__attribute__((noinline)) static int climb(int depth)
{
	if (depth == 0)
		throw std::logic_error("bottom");
	try { // each level catches and throws again
		return climb(depth - 1) + 1;
	} catch (const std::logic_error &) {
		if (depth == 3)
			return 100;
		throw;
	}
}

__attribute__((noinline)) static int concert(const std::vector<std::unique_ptr<animal>> &zoo,
					     int volume)
{
	int sum = 0;
	for (const auto &a : zoo) {
		try {
			sum += a->sound(volume);
		} catch (const std::exception &e) {
			sum += static_cast<int>(std::string(e.what()).size());
		}
	}
	return sum;
}

int main()
{
	std::vector<std::unique_ptr<animal>> zoo;
	std::map<std::string, int> names;
	std::vector<int> values;
	int sum = 0;

	for (int i = 0; i < 6; i++) {
		if (i % 2)
			zoo.push_back(std::make_unique<dog>());
		else
			zoo.push_back(std::make_unique<cat>());
		names["animal " + std::to_string(i * 7 % 5)] += i;
	}
	for (int i = 0; i < 40; i++)
		values.push_back(i * 7919 % 101);
	std::sort(values.begin(), values.end(), [](int a, int b) { return a % 10 < b % 10; });
	for (int volume = 0; volume < 60; volume += 25)
		sum += concert(zoo, volume);
	for (int fail_at = 0; fail_at < 12; fail_at += 4) {
		try {
			sum += descend(10, fail_at);
		} catch (int depth) {
			sum += 1000 + depth;
		}
	}
	sum += descend(5, -1) + climb(6);
	for (const auto &n : names)
		sum += n.second;
	std::printf("%d %d %d\n", sum, released, values[3]);
	return 0;
}
