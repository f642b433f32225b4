/*
 * Which system calls a sandbox may make, by name. Included by seccomp.c with meanings for ALLOW, REFUSE, ABSENT
 * (names of the kernel headers) and for the _NUMBER forms (calls newer than the headers we build with; from 424 on
 * numbers are the same on every architecture).
 *
 * The list follows the default profile of container engines for a container without added capabilities. Refused
 * beyond that: NUMA placement, fanotify, kcmp, io_uring. Decided by argument in seccomp.c: clone, unshare, socket,
 * socketpair, setsockopt, prctl, seccomp, personality. ABSENT gives ENOSYS because callers have a fallback (clone3 to
 * clone, io_uring to epoll). The contexts of io_setup are counted for the whole machine (fs.aio-max-nr) and nothing
 * else; databases and web servers that ask for them go on with threads.
 */
/* clang-format off */
ALLOW(read) ALLOW(write) ALLOW(close) ALLOW(fstat) ALLOW(lseek) ALLOW(mmap) ALLOW(mprotect) ALLOW(munmap)
ALLOW(brk) ALLOW(rt_sigaction) ALLOW(rt_sigprocmask) ALLOW(rt_sigreturn) ALLOW(ioctl) ALLOW(pread64)
ALLOW(pwrite64) ALLOW(readv) ALLOW(writev) ALLOW(sched_yield) ALLOW(mremap) ALLOW(msync) ALLOW(mincore)
ALLOW(madvise) ALLOW(shmget) ALLOW(shmat) ALLOW(shmctl) ALLOW(dup) ALLOW(nanosleep) ALLOW(getitimer)
ALLOW(setitimer) ALLOW(getpid) ALLOW(sendfile) ALLOW(connect) ALLOW(accept) ALLOW(sendto) ALLOW(recvfrom)
ALLOW(sendmsg) ALLOW(recvmsg) ALLOW(shutdown) ALLOW(bind) ALLOW(listen) ALLOW(getsockname) ALLOW(getpeername)
ALLOW(getsockopt) ALLOW(execve) ALLOW(exit) ALLOW(wait4) ALLOW(kill)
ALLOW(uname) ALLOW(semget) ALLOW(semop) ALLOW(semctl) ALLOW(shmdt) ALLOW(msgget) ALLOW(msgsnd) ALLOW(msgrcv)
ALLOW(msgctl) ALLOW(fcntl) ALLOW(flock) ALLOW(fsync) ALLOW(fdatasync) ALLOW(truncate) ALLOW(ftruncate)
ALLOW(getcwd) ALLOW(chdir) ALLOW(fchdir) ALLOW(fchmod) ALLOW(fchown) ALLOW(umask) ALLOW(gettimeofday)
ALLOW(getrlimit) ALLOW(getrusage) ALLOW(sysinfo) ALLOW(times) ALLOW(ptrace) ALLOW(getuid) ALLOW(getgid)
ALLOW(setuid) ALLOW(setgid) ALLOW(geteuid) ALLOW(getegid) ALLOW(setpgid) ALLOW(getppid) ALLOW(setsid)
ALLOW(setreuid) ALLOW(setregid) ALLOW(getgroups) ALLOW(setgroups) ALLOW(setresuid) ALLOW(getresuid)
ALLOW(setresgid) ALLOW(getresgid) ALLOW(getpgid) ALLOW(setfsuid) ALLOW(setfsgid) ALLOW(getsid) ALLOW(capget)
ALLOW(capset) ALLOW(rt_sigpending) ALLOW(rt_sigtimedwait) ALLOW(rt_sigqueueinfo) ALLOW(rt_sigsuspend)
ALLOW(sigaltstack) ALLOW(statfs) ALLOW(fstatfs) ALLOW(getpriority) ALLOW(setpriority) ALLOW(sched_setparam)
ALLOW(sched_getparam) ALLOW(sched_setscheduler) ALLOW(sched_getscheduler) ALLOW(sched_get_priority_max)
ALLOW(sched_get_priority_min) ALLOW(sched_rr_get_interval) ALLOW(mlock) ALLOW(munlock) ALLOW(mlockall)
ALLOW(munlockall) ALLOW(adjtimex) ALLOW(setrlimit) ALLOW(chroot) ALLOW(sync) ALLOW(gettid)
ALLOW(readahead) ALLOW(setxattr) ALLOW(lsetxattr) ALLOW(fsetxattr) ALLOW(getxattr) ALLOW(lgetxattr)
ALLOW(fgetxattr) ALLOW(listxattr) ALLOW(llistxattr) ALLOW(flistxattr) ALLOW(removexattr) ALLOW(lremovexattr)
ALLOW(fremovexattr) ALLOW(tkill) ALLOW(futex) ALLOW(sched_setaffinity) ALLOW(sched_getaffinity)
ALLOW(remap_file_pages)
ALLOW(getdents64) ALLOW(set_tid_address) ALLOW(restart_syscall) ALLOW(semtimedop) ALLOW(fadvise64)
ALLOW(timer_create) ALLOW(timer_settime) ALLOW(timer_gettime) ALLOW(timer_getoverrun) ALLOW(timer_delete)
ALLOW(clock_gettime) ALLOW(clock_getres) ALLOW(clock_nanosleep) ALLOW(exit_group) ALLOW(epoll_ctl) ALLOW(tgkill)
ALLOW(mq_open) ALLOW(mq_unlink) ALLOW(mq_timedsend) ALLOW(mq_timedreceive) ALLOW(mq_notify) ALLOW(mq_getsetattr)
ALLOW(waitid) ALLOW(ioprio_set) ALLOW(ioprio_get) ALLOW(inotify_add_watch) ALLOW(inotify_rm_watch) ALLOW(openat)
ALLOW(mkdirat) ALLOW(mknodat) ALLOW(fchownat) ALLOW(newfstatat) ALLOW(unlinkat) ALLOW(renameat) ALLOW(linkat)
ALLOW(symlinkat) ALLOW(readlinkat) ALLOW(fchmodat) ALLOW(faccessat) ALLOW(pselect6) ALLOW(ppoll)
ALLOW(set_robust_list) ALLOW(get_robust_list) ALLOW(splice) ALLOW(tee) ALLOW(sync_file_range) ALLOW(vmsplice)
ALLOW(utimensat) ALLOW(epoll_pwait) ALLOW(timerfd_create) ALLOW(fallocate) ALLOW(timerfd_settime)
ALLOW(timerfd_gettime) ALLOW(accept4) ALLOW(signalfd4) ALLOW(eventfd2) ALLOW(epoll_create1) ALLOW(dup3)
ALLOW(pipe2) ALLOW(inotify_init1) ALLOW(preadv) ALLOW(pwritev) ALLOW(rt_tgsigqueueinfo) ALLOW(recvmmsg)
ALLOW(prlimit64) ALLOW(name_to_handle_at) ALLOW(clock_adjtime) ALLOW(syncfs) ALLOW(sendmmsg) ALLOW(getcpu)
ALLOW(process_vm_readv) ALLOW(process_vm_writev) ALLOW(sched_setattr) ALLOW(sched_getattr) ALLOW(renameat2)
ALLOW(getrandom) ALLOW(memfd_create) ALLOW(execveat) ALLOW(membarrier) ALLOW(mlock2)
ALLOW(copy_file_range) ALLOW(preadv2) ALLOW(pwritev2) ALLOW(pkey_mprotect) ALLOW(pkey_alloc) ALLOW(pkey_free)
ALLOW(statx) ALLOW(rseq) ALLOW(pidfd_send_signal) ALLOW(pidfd_open) ALLOW(close_range)
ALLOW(openat2) ALLOW(pidfd_getfd) ALLOW(faccessat2) ALLOW(process_madvise) ALLOW(epoll_pwait2)
ALLOW(landlock_create_ruleset) ALLOW(landlock_add_rule) ALLOW(landlock_restrict_self)
#ifdef __x86_64__
ALLOW(open) ALLOW(stat) ALLOW(lstat) ALLOW(poll) ALLOW(access) ALLOW(pipe) ALLOW(select) ALLOW(dup2)
ALLOW(pause) ALLOW(alarm) ALLOW(fork) ALLOW(vfork) ALLOW(getdents) ALLOW(rename) ALLOW(mkdir) ALLOW(rmdir)
ALLOW(creat) ALLOW(link) ALLOW(unlink) ALLOW(symlink) ALLOW(readlink) ALLOW(chmod) ALLOW(chown) ALLOW(lchown)
ALLOW(getpgrp) ALLOW(utime) ALLOW(mknod) ALLOW(modify_ldt) ALLOW(arch_prctl) ALLOW(time) ALLOW(set_thread_area)
ALLOW(get_thread_area) ALLOW(epoll_create) ALLOW(epoll_wait) ALLOW(utimes) ALLOW(inotify_init) ALLOW(futimesat)
ALLOW(signalfd) ALLOW(eventfd)
#endif
REFUSE(mount) REFUSE(umount2) REFUSE(pivot_root) REFUSE(swapon) REFUSE(swapoff) REFUSE(reboot)
REFUSE(sethostname) REFUSE(setdomainname) REFUSE(init_module) REFUSE(finit_module) REFUSE(delete_module)
REFUSE(quotactl) REFUSE(nfsservctl) REFUSE(acct) REFUSE(settimeofday) REFUSE(clock_settime)
REFUSE(syslog) REFUSE(vhangup) REFUSE(lookup_dcookie) REFUSE(kexec_load) REFUSE(kexec_file_load) REFUSE(add_key)
REFUSE(request_key) REFUSE(keyctl) REFUSE(bpf) REFUSE(perf_event_open) REFUSE(userfaultfd)
REFUSE(open_by_handle_at) REFUSE(setns) REFUSE(fanotify_init) REFUSE(fanotify_mark) REFUSE(kcmp)
REFUSE(move_pages) REFUSE(migrate_pages) REFUSE(mbind) REFUSE(set_mempolicy) REFUSE(get_mempolicy) REFUSE(open_tree) REFUSE(move_mount) REFUSE(fsopen) REFUSE(fsconfig)
REFUSE(fsmount) REFUSE(fspick) REFUSE(mount_setattr)
#ifdef __x86_64__
REFUSE(iopl) REFUSE(ioperm) REFUSE(create_module) REFUSE(get_kernel_syms) REFUSE(query_module) REFUSE(ustat)
REFUSE(sysfs) REFUSE(_sysctl) REFUSE(uselib)
#endif
ABSENT(io_uring_setup) ABSENT(io_uring_enter) ABSENT(io_uring_register) ABSENT(clone3)
ABSENT(io_setup) ABSENT(io_destroy) ABSENT(io_getevents) ABSENT(io_submit) ABSENT(io_cancel) ABSENT(io_pgetevents)
ALLOW_NUMBER(447) /* memfd_secret */
ALLOW_NUMBER(448) /* process_mrelease */
ALLOW_NUMBER(449) /* futex_waitv */
ALLOW_NUMBER(451) /* cachestat */
ALLOW_NUMBER(452) /* fchmodat2 */
ALLOW_NUMBER(453) /* map_shadow_stack */
ALLOW_NUMBER(454) /* futex_wake */
ALLOW_NUMBER(455) /* futex_wait */
ALLOW_NUMBER(456) /* futex_requeue */
ALLOW_NUMBER(462) /* mseal */
ALLOW_NUMBER(463) /* setxattrat */
ALLOW_NUMBER(464) /* getxattrat */
ALLOW_NUMBER(465) /* listxattrat */
ALLOW_NUMBER(466) /* removexattrat */
REFUSE_NUMBER(443) /* quotactl_fd */
REFUSE_NUMBER(450) /* set_mempolicy_home_node */
REFUSE_NUMBER(457) /* statmount */
REFUSE_NUMBER(458) /* listmount */
REFUSE_NUMBER(459) /* lsm_get_self_attr */
REFUSE_NUMBER(460) /* lsm_set_self_attr */
REFUSE_NUMBER(461) /* lsm_list_modules */
REFUSE_NUMBER(467) /* open_tree_attr */
