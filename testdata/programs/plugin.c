/* The library that dlopen.c loads. */
int plugin_twice(int value);
int plugin_run(int count, int (*callback)(int));

int plugin_twice(int value)
{
	return value * 2;
}

int plugin_run(int count, int (*callback)(int))
{
	int sum = 0;

	for (int i = 0; i < count; i++)
		sum += callback(plugin_twice(i)); /* through the PLT: it may be interposed */
	return sum;
}
