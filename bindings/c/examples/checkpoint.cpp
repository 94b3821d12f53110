/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A C++ program whose state is a std::vector that grows. It can be killed at any moment and started again; then it goes on
 * where its newest checkpoint was taken.
 *
 *     c++ -O2 -o walkers checkpoint.cpp $(pkg-config --cflags --libs surefoot)
 *     ./walkers 1000
 *
 * The number is how many steps it does; then come settings of the checkpoints. C++98 and later.
 */
#include <surefoot_checkpoint.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

/* The checkpoints of a program, closed with the object. */
class Job {
public:
	Job(const char *name, int settings, char **setting) : handle_(NULL)
	{
		surefoot_config *config = surefoot_config_new(name);

		if (!config)
			fail();
		for (int i = 0; i < settings; i++) {
			const std::string said(setting[i]);
			const std::string::size_type at = said.find('=');

			if (at == std::string::npos)
				throw std::runtime_error(said + " is no setting: NAME=VALUE");
			if (surefoot_config_set(config, said.substr(0, at).c_str(), said.substr(at + 1).c_str()))
				fail();
		}
		if (surefoot_checkpoint_open(config, NULL, &handle_))
			fail();
		surefoot_config_free(config);
	}

	~Job() { surefoot_checkpoint_close(handle_); }

	/* A vector that grows moves: its region is registered again before each save. */
	template <typename T> void protect(const char *name, std::vector<T> &values)
	{
		check(surefoot_checkpoint_protect(handle_, name, values.empty() ? NULL : &values[0], values.size() * sizeof(T)));
	}

	template <typename T> void protect(const char *name, T &value)
	{
		check(surefoot_checkpoint_protect(handle_, name, &value, sizeof(T)));
	}

	/* How long a region was saved is known when the checkpoint is found: `place` makes room then. False: there is none. */
	bool restart(int (*place)(void *, uint64_t, struct surefoot_part *, size_t), void *context)
	{
		const struct surefoot_placer placer = {context, place};
		const int status = surefoot_checkpoint_restart_into(handle_, &placer, NULL);

		check(status);
		return status == SUREFOOT_STATUS_OK;
	}

	const char *report() { return surefoot_checkpoint_report(handle_); }

	/* A failed save leaves the program as it was: it is said, and the program goes on. */
	void save()
	{
		if (surefoot_checkpoint_save(handle_, NULL))
			std::fprintf(stderr, "no checkpoint: %s\n", surefoot_error_text(handle_));
	}

	/* What happened in the background, such as a checkpoint that became durable. */
	void say_notices()
	{
		while (const char *notice = surefoot_checkpoint_notice(handle_))
			std::printf("%s\n", notice);
	}

	/* Whether SIGTERM came before the last save, with sigterm=checkpoint; that save is durable then. */
	bool is_told_to_end()
	{
		int is_told = 0;

		check(surefoot_checkpoint_told_to_end(handle_, &is_told));
		return is_told != 0;
	}

	void finish() { check(surefoot_checkpoint_finish(handle_)); }

private:
	Job(const Job &);
	Job &operator=(const Job &);

	static void fail() { throw std::runtime_error(surefoot_error_text(NULL)); }

	static void check(int status)
	{
		if (status < 0)
			fail();
	}

	surefoot_checkpoint *handle_;
};

struct State {
	long step;
	std::vector<double> walkers;
};

static int place(void *context, uint64_t, struct surefoot_part *parts, size_t count)
{
	State &state = *static_cast<State *>(context);

	for (size_t i = 0; i < count; i++) {
		const std::string name(parts[i].name);

		if (name == "step" && parts[i].bytes == sizeof(state.step)) {
			parts[i].start = &state.step;
		} else if (name == "walkers" && parts[i].bytes % sizeof(double) == 0) {
			state.walkers.resize(parts[i].bytes / sizeof(double));
			parts[i].start = state.walkers.empty() ? NULL : &state.walkers[0];
		} else {
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
try {
	const long steps = argc > 1 ? std::atol(argv[1]) : 100;
	State state;
	Job job("walkers", argc > 2 ? argc - 2 : 0, argv + 2);

	state.step = 0;
	if (job.restart(place, &state))
		std::printf("at step %ld with %lu walkers: %s\n", state.step, (unsigned long)state.walkers.size(), job.report());
	while (state.step < steps && !job.is_told_to_end()) {
		/* One more in each step, and all of them move. */
		state.walkers.push_back((double)state.step);
		for (size_t i = 0; i < state.walkers.size(); i++)
			state.walkers[i] = state.walkers[i] * 0.75 + (double)(i % 7);
		state.step++;
		if (state.step % 10 == 0) {
			job.protect("step", state.step);
			job.protect("walkers", state.walkers);
			job.save();
			job.say_notices();
		}
	}
	double sum = 0;
	for (size_t i = 0; i < state.walkers.size(); i++)
		sum += state.walkers[i];
	std::printf("after %ld steps %lu walkers are at %.17g, surefoot %s\n", state.step, (unsigned long)state.walkers.size(), sum,
		    surefoot_version());
	job.finish();
	return 0;
} catch (const std::exception &error) {
	std::fprintf(stderr, "%s\n", error.what());
	return 2;
}
