/** The least number of processes that a sandbox may be held to: PID 1 with its workers, a command and some room. */
export const processesMin = 16;
