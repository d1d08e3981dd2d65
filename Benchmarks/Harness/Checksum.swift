import Foundation

/// What an engine has read, added up: equal sums show that the engines did the same work.
struct Checksum: Equatable, Sendable, CustomStringConvertible {
    var count = 0
    var titleBytes = 0
    var bodyBytes = 0
    var created = 0.0
    var ratings: Int64 = 0
    var flags = 0
    var prices = 0.0
    var uuids: UInt64 = 0
    /// Depends on the order of the notes. Only sorted fetches set it.
    var order: Int64 = 0
    /// The length of the names of related objects, and their number.
    var relatedBytes = 0
    var related = 0

    @inline(__always)
    mutating func addRelated(nameBytes: Int) {
        related += 1
        relatedBytes += nameBytes
    }

    @inline(__always)
    mutating func add(
        titleBytes: Int, bodyBytes: Int, created: Double, rating: Int64, flag: Bool, price: Double,
        uuid: UInt64, ordered: Bool
    ) {
        count += 1
        self.titleBytes += titleBytes
        self.bodyBytes += bodyBytes
        self.created += created
        ratings &+= rating
        flags += flag ? 1 : 0
        prices += price
        uuids ^= uuid
        if ordered { order = order &* 31 &+ Int64(created) &+ rating }
    }

    var description: String {
        "\(count) notes, titles \(titleBytes), bodies \(bodyBytes), created \(created), "
            + "ratings \(ratings), flags \(flags), prices \(prices), uuids \(uuids), order \(order), related \(related) "
            + "of \(relatedBytes) bytes"
    }
}

extension UUID {
    /// The exclusive or of both halves, for checksums.
    var folded: UInt64 {
        withUnsafeBytes(of: uuid) {
            $0.loadUnaligned(as: UInt64.self) ^ $0.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
        }
    }
}
