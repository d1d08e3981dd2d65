#if QUIRE_THREAD_SANITIZER
    import Glibc
#else
    public import Synchronization
#endif

/// A value protected by a mutex: `Synchronization.Mutex`, except under the thread sanitizer.
///
/// The sanitizer does not see that `Mutex` orders accesses, because the toolchain's library that implements it is not
/// instrumented, and reports every access under one as a race. It supports pthread's mutexes, so its builds use these (`make
/// test-threads`).
///
/// Inlinable, and hence `@usableFromInline`, because an unspecialized call from another module costs seven times the lock.
@usableFromInline package struct Lock<Value: ~Copyable>: ~Copyable, Sendable {
    #if QUIRE_THREAD_SANITIZER
        private let storage: PthreadStorage<Value>

        @usableFromInline package init(_ value: consuming sending Value) {
            storage = PthreadStorage(value)
        }

        deinit { storage.destroy() }

        @usableFromInline package borrowing func withLock<Result: ~Copyable, Failure: Error>(
            _ body: (inout sending Value) throws(Failure) -> sending Result
        ) throws(Failure) -> sending Result {
            pthread_mutex_lock(storage.mutex)
            defer { pthread_mutex_unlock(storage.mutex) }
            return try body(&storage.value.pointee)
        }
    #else
        @usableFromInline package let mutex: Mutex<Value>

        @inlinable package init(_ value: consuming sending Value) {
            mutex = Mutex(value)
        }

        @inlinable package borrowing func withLock<Result: ~Copyable, Failure: Error>(
            _ body: (inout sending Value) throws(Failure) -> sending Result
        ) throws(Failure) -> sending Result {
            try mutex.withLock(body)
        }
    #endif
}

#if QUIRE_THREAD_SANITIZER
    /// Stable storage of pthread's mutex and the value, because a mutex must not move.
    // Unchecked, because the value is only reached under the mutex, and the mutex itself is for all threads.
    private struct PthreadStorage<Value: ~Copyable>: @unchecked Sendable {
        let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
        let value = UnsafeMutablePointer<Value>.allocate(capacity: 1)

        init(_ value: consuming sending Value) {
            mutex.initialize(to: pthread_mutex_t())
            pthread_mutex_init(mutex, nil)
            self.value.initialize(to: value)
        }

        func destroy() {
            value.deinitialize(count: 1)
            value.deallocate()
            pthread_mutex_destroy(mutex)
            mutex.deallocate()
        }
    }
#endif
