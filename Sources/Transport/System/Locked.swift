import Glibc

/// A value behind a lock of the C library.
///
/// This is not the standard library's `Mutex`, because the thread sanitizer does not see that. `Mutex` uses a futex
/// inside a library that is not instrumented, so every access that it guards is reported as a race.
///
/// `@unchecked Sendable` is sound because the value is only accessed with the lock held.
@safe package final class Locked<Value>: @unchecked Sendable {
    private var value: Value
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)

    package init(_ value: Value) {
        self.value = value
        let result = unsafe pthread_mutex_init(mutex, nil)
        precondition(result == 0, "a mutex with default attributes can be made")
    }

    deinit {
        unsafe pthread_mutex_destroy(mutex)
        unsafe mutex.deallocate()
    }

    /// Calls `body` with the lock held; it must not call `withLock` of the same object.
    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        unsafe pthread_mutex_lock(mutex)
        defer { unsafe pthread_mutex_unlock(mutex) }
        return try body(&value)
    }
}
