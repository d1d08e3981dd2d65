public import CLinux

/// Prefetches the cache line at an address.
///
/// For loops over packed rows: a row that is read for the first time has to come from main memory, which takes
/// longer than all that is done with it.
@inlinable @inline(__always)
package func prefetchMemory(at address: UnsafeRawPointer) { quire_prefetch(address) }
