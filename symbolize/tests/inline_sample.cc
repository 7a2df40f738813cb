// Inlining of every kind that DWARF can describe: templates, lambdas, namespaces, a class
// local to a function, exceptions (cold parts), and the standard library's own.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace app
{
namespace
{
struct item {
	std::string name;
	std::map<int, std::string> more;

	bool operator<(const item &other) const
	{
		return name < other.name;
	}
};

inline int checked(int x)
{
	if (x < 0)
		throw std::runtime_error("negative");
	return x * 3;
}
} // namespace

int work(int count)
{
	struct counter {
		int sum = 0;

		void operator()(const item &i)
		{
			sum += static_cast<int>(i.more.size());
		}
	};
	std::vector<item> items;

	for (int i = 0; i < count; i++) {
		item next;
		next.name = std::to_string(checked(i));
		next.more[i] = "x" + next.name;
		items.push_back(next);
	}
	std::sort(items.begin(), items.end());
	std::function<int(int)> deferred = [&](int i) { return checked(i) + int(items.size()); };
	return std::for_each(items.begin(), items.end(), counter()).sum + deferred(count);
}
} // namespace app

int main(int argc, char **)
{
	try {
		std::cout << app::work(argc) << "\n";
	} catch (const std::exception &e) {
		std::cerr << e.what() << "\n";
		return 1;
	}
	return 0;
}
