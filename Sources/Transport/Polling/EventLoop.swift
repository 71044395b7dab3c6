import CLinux
import Glibc
import Synchronization

/// One thread that waits for sockets and timers and runs the actors that live on it.
///
/// Everything that serves one engine (connections, dispatcher, permits, store) lives on one loop, isolated to an actor
/// whose `unownedExecutor` is the loop. A call between two actors of the same loop costs 0.07 µs; a hop between two
/// executors costs 12 µs. Nothing on the loop needs a lock: handlers and timers run on its thread and reach their actor
/// by `assumeIsolated`.
///
/// Tasks of the loop are started with `Task(executorPreference: loop)`. Swift resumes a continuation on the task's
/// preferred executor first, and then goes to the actor's. If both are the loop, resuming a task costs one append to
/// the queue. Without the preference the task goes through the global pool and back, which costs 15 µs.
///
/// A turn is: sleep until something is ready · handlers of what is ready · timers that are due · all queued jobs ·
/// end-of-turn actions, so that writes go out once a turn and not once a request.
///
/// `@unchecked Sendable` is sound because each stored property is one of three: immutable; behind the lock or atomic
/// (`inbox`, `thread`, `handle`); or used only on the loop's thread, which every method that does so asserts on entry
/// (`turn` and the methods that it calls run nowhere else). The thread keeps the loop alive until `shutDown()`.
@safe package final class EventLoop: SerialExecutor, TaskExecutor, @unchecked Sendable {
    /// The work that other threads leave for the loop.
    private struct Inbox {
        var jobs: [UnownedJob] = []
        var actions: [@Sendable () -> Void] = []
        /// Whether the loop sleeps in the kernel or is about to. A thread that adds a job then has to wake it.
        var isAsleep = false
        var isShutDown = false
    }

    /// The size of the read buffer, which all streams of the loop share. With a thousand connections, a buffer for each
    /// would be most of a worker's memory.
    static let readBufferBytes = 128 * 1024

    /// Shown as the thread's name (its first 15 bytes).
    package let name: String
    private let inbox = Locked(Inbox())
    private let poller = Poller()
    private let thread = Atomic<UInt>(0)
    /// The thread, until it has ended or a caller waits for its end.
    private let handle = Locked<pthread_t?>(nil)

    // Used only on the loop's thread.
    private let timers = TimerHeap()
    private var jobs: [UnownedJob] = []
    private var endOfTurn: [() -> Void] = []
    private var turnStart = ContinuousClock.now
    private let epoch = ContinuousClock.now
    private var turnStartNanoseconds: UInt64 = 0
    /// The look-ups that connections wait for.
    var lookUps = PendingLookUps()
    let readBuffer: UnsafeMutableRawBufferPointer

    /// Starts the loop's thread.
    package init(name: String) {
        self.name = name
        unsafe readBuffer = .allocate(byteCount: Self.readBufferBytes, alignment: 16)
        let started = SystemThread.startJoinable { self.run() }
        handle.withLock { $0 = started }
    }

    deinit {
        unsafe readBuffer.deallocate()
    }

    /// Ends the thread once the queued work has run. May be called on any thread; a second call does nothing.
    /// Afterwards the loop never runs jobs, timers or handlers.
    package func shutDown() {
        let wasAsleep = inbox.withLock { inbox in
            inbox.isShutDown = true
            defer { inbox.isAsleep = false }
            return inbox.isAsleep
        }
        if wasAsleep { poller.wake() }
    }

    /// Shuts down and waits at most five seconds for the end of the thread. Must not be called on the loop's thread.
    ///
    /// A process has to call this before it ends: OpenSSL frees its memory when a process ends, and a thread that
    /// closes connections at that moment would free it a second time.
    package func shutDownAndWait() {
        precondition(!isCurrent, "a loop cannot wait for its own end")
        shutDown()
        guard let handle = handle.withLock({ $0.take() }) else { return }
        var deadline = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &deadline)
        deadline.tv_sec += 5
        let code = unsafe withUnsafePointer(to: deadline) { unsafe pthread_timedjoin_np(handle, nil, $0) }
        if code != 0 { pthread_detach(handle) }
    }

    // MARK: Executor

    /// Queues a job. From another thread this costs a system call only if the loop sleeps; from the loop's own thread
    /// it never does.
    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        guard !isCurrent else { return jobs.append(job) }
        let wasAsleep = inbox.withLock { inbox in
            inbox.jobs.append(job)
            defer { inbox.isAsleep = false }
            return inbox.isAsleep
        }
        if wasAsleep { poller.wake() }
    }

    /// Runs `action` on the loop's thread, in its next turn. Other threads hand over their results in this way. May be
    /// called on any thread.
    package func post(_ action: @escaping @Sendable () -> Void) {
        let wasAsleep = inbox.withLock { inbox in
            inbox.actions.append(action)
            defer { inbox.isAsleep = false }
            return inbox.isAsleep
        }
        if wasAsleep { poller.wake() }
    }

    /// Whether the caller is on the loop's thread.
    package var isCurrent: Bool {
        thread.load(ordering: .relaxed) == pthread_self()
    }

    /// Stops the process unless the caller is on the loop's thread. Makes `assumeIsolated` work in handlers, timers and
    /// end-of-turn actions, which run outside any job.
    package func checkIsolated() {
        precondition(isCurrent, "called off the thread of the event loop it belongs to")
    }

    /// Answers the question that ``checkIsolated()`` asserts.
    package func isIsolatingCurrentContext() -> Bool? {
        isCurrent
    }

    // MARK: On the loop's thread

    /// When this turn began. It is precise enough for deadlines, and costs no system call.
    package var now: ContinuousClock.Instant {
        checkIsolated()
        return turnStart
    }

    /// The same in nanoseconds since the loop was made. It is smaller than an instant, for times that are kept with
    /// many objects.
    package var nowNanoseconds: UInt64 {
        checkIsolated()
        return turnStartNanoseconds
    }

    /// Calls `handler` whenever `descriptor` is ready. The loop keeps the handler until ``unwatch(_:)``, which must be
    /// called before the descriptor is closed.
    package func watch(_ descriptor: CInt, for interest: Interest, handler: any ReadinessHandler) {
        checkIsolated()
        poller.watch(descriptor, for: interest, handler: handler)
    }

    /// Changes what a descriptor is watched for. Without a change there is no system call.
    package func update(_ descriptor: CInt, interest: Interest) {
        checkIsolated()
        poller.update(descriptor, interest: interest)
    }

    /// Ends the watch. The handler is not called again, not even for an event that this turn has found.
    package func unwatch(_ descriptor: CInt) {
        checkIsolated()
        poller.unwatch(descriptor)
    }

    /// Runs `action` after `delay`, counted from the beginning of this turn and at most a millisecond late while the
    /// loop is idle. The caller keeps the timer only to cancel it.
    @discardableResult
    package func schedule(after delay: Duration, _ action: @escaping () -> Void) -> Timer {
        checkIsolated()
        return timers.add(at: turnStart + delay, action)
    }

    /// Runs `action` once, after all handlers, timers and jobs of this turn.
    package func atEndOfTurn(_ action: @escaping () -> Void) {
        checkIsolated()
        endOfTurn.append(action)
    }

    // MARK: The thread

    private func run() {
        thread.store(pthread_self(), ordering: .relaxed)
        _ = unsafe pthread_setname_np(pthread_self(), String(name.utf8.prefix(15))!)
        blockBrokenPipes()
        while !hasEnded() { turn() }
        timers.removeAll()
        poller.unwatchAll()
        endOfTurn.removeAll()
        thread.store(0, ordering: .relaxed)
        // If the handle is still there, no caller waits for the end of the thread.
        if let handle = handle.withLock({ $0.take() }) { pthread_detach(handle) }
    }

    /// Sockets are written with MSG_NOSIGNAL. This is for a write that is not: it blocks SIGPIPE in the loop's thread
    /// alone, and does not change how the process handles it.
    private func blockBrokenPipes() {
        var signals = sigset_t()
        unsafe sigemptyset(&signals)
        unsafe sigaddset(&signals, SIGPIPE)
        unsafe pthread_sigmask(SIG_BLOCK, &signals, nil)
    }

    private func hasEnded() -> Bool {
        inbox.withLock { $0.isShutDown && $0.jobs.isEmpty && $0.actions.isEmpty } && jobs.isEmpty && endOfTurn.isEmpty
    }

    private func turn() {
        poller.wait(milliseconds: timeToSleep()) { readClock() }
        timers.fireDue(at: turnStart)
        runJobs()
        runEndOfTurn()
    }

    private func readClock() {
        turnStart = .now
        let (seconds, attoseconds) = epoch.duration(to: turnStart).components
        turnStartNanoseconds = UInt64(seconds) * 1_000_000_000 + UInt64(attoseconds / 1_000_000_000)
    }

    /// How long the thread may sleep in the kernel. It checks that the inbox is empty and tells ``enqueue(_:)`` about
    /// the sleep under the same lock, so no job can come in between.
    private func timeToSleep() -> CInt {
        guard jobs.isEmpty, endOfTurn.isEmpty else { return 0 }
        let delay = timers.nextDeadline().map { ContinuousClock.now.duration(to: $0) }
        if let delay, delay <= .zero { return 0 }
        let maySleep = inbox.withLock { inbox in
            inbox.isAsleep = inbox.jobs.isEmpty && inbox.actions.isEmpty && !inbox.isShutDown
            return inbox.isAsleep
        }
        return maySleep ? delay.map(Self.milliseconds) ?? -1 : 0
    }

    /// Returns the delay rounded up. If it woke too early for a timer, the loop would spin until the timer is due.
    private static func milliseconds(_ delay: Duration) -> CInt {
        let (seconds, attoseconds) = delay.components
        guard seconds < 3600 else { return 3_600_000 }
        return CInt(seconds * 1000 + (attoseconds + 999_999_999_999_999) / 1_000_000_000_000_000)
    }

    /// Runs the queued jobs, and the jobs that they queue, in rounds. The number of rounds is bounded, so that actors
    /// that keep each other busy do not keep the loop from its sockets.
    private func runJobs() {
        for _ in 0..<16 {
            var batch: [UnownedJob] = []
            var actions: [@Sendable () -> Void] = []
            swap(&batch, &jobs)
            inbox.withLock { inbox in
                inbox.isAsleep = false
                swap(&actions, &inbox.actions)
                batch.append(contentsOf: inbox.jobs)
                inbox.jobs.removeAll(keepingCapacity: true)
            }
            guard !batch.isEmpty || !actions.isEmpty else { return }
            for action in actions { action() }
            for job in batch {
                unsafe job.runSynchronously(
                    isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
            }
        }
    }

    /// Runs the end-of-turn actions. Actions that they add run in the next turn, which begins at once.
    private func runEndOfTurn() {
        guard !endOfTurn.isEmpty else { return }
        var batch: [() -> Void] = []
        swap(&batch, &endOfTurn)
        for action in batch { action() }
    }
}
