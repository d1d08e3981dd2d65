public import Foundation
public import QuireModel
internal import QuireSystem

/// A block of memory that holds packed rows. Written by one ``RowSetBuilder``, then never changed.
///
/// A row is aligned to 8 bytes:
///
///     0   UInt64   identifier bits, as in ManagedObjectID
///     8   UInt32   version (Z_OPT)
///     12  UInt32   size of the row in bytes
///     16  UInt64 × ⌈slots / 64⌉   bit set: the slot has a value
///     …   8 bytes × slots         cells
///     …   bytes of strings and blobs
///
/// A cell holds an Int64, a Double, a Bool (as Int64), the identifier bits of a reference, or, for strings,
/// blobs, UUIDs, URIs and decimals, the offset from the row's start and the length in bytes as two UInt32.
///
/// It is `@unchecked Sendable` because the builder that writes it is not shared, and publishes it only when
/// it has finished.
@usableFromInline
package final class RowChunk: @unchecked Sendable {
    @usableFromInline let bytes: UnsafeMutableRawPointer
    @usableFromInline let capacity: Int
    /// What reads the files that binary values of the rows are kept in.
    package let externalData: (any ExternalDataReading)?

    /// The size of the blocks that rows share. A larger row gets a block of its own.
    static let standardCapacity = 256 * 1024
    /// The greatest size of a row, and of a block: sizes and offsets have 32 bits.
    static let greatestSize = Int(UInt32.max) & ~7
    /// How many standard blocks wait for reuse (64 MiB). Touching fresh pages costs more than filling them.
    private static let poolLimit = 256
    private static let pool = Lock<[UInt]>([])

    init(capacity: Int, externalData: (any ExternalDataReading)?) {
        self.externalData = externalData
        self.capacity = capacity
        if capacity == Self.standardCapacity {
            if let address = Self.pool.withLock({ $0.popLast() }),
                let pointer = UnsafeMutableRawPointer(bitPattern: address)
            {
                bytes = pointer
                return
            }
        }
        bytes = .allocate(byteCount: self.capacity, alignment: 16)
    }

    deinit {
        if capacity == Self.standardCapacity {
            let address = UInt(bitPattern: bytes)
            let kept = Self.pool.withLock { pool in
                if pool.count >= Self.poolLimit { return false }
                pool.append(address)
                return true
            }
            if kept { return }
        }
        bytes.deallocate()
    }
}

/// Reads binary values that a store keeps in files of their own.
public protocol ExternalDataReading: Sendable {
    /// The bytes of the value of a name.
    func data(named name: String) throws -> Data

    /// The value of a name, without reading it.
    func externalData(named name: String) throws -> ExternalData
}

extension ExternalDataReading {
    /// The value of a name, read into memory.
    public func externalData(named name: String) throws -> ExternalData {
        ExternalData(try data(named: name))
    }
}
