public import CLinux

/// Prefetches the cache line at an address.
///
/// For loops over packed rows: the first read of a row is a cache miss, which costs more than processing it.
@inlinable @inline(__always)
package func prefetchMemory(at address: UnsafeRawPointer) { quire_prefetch(address) }
