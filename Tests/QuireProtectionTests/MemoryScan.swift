import Foundation

/// Bytes to look for in the memory of this process, kept so that keeping them does not put them there.
struct MaskedBytes {
    private static let mask: UInt8 = 0xA5
    private let masked: [UInt8]

    /// - Parameter bytes: A buffer of at least one byte that is not zero. The rest of memory is mostly zeros.
    init(of bytes: UnsafeRawBufferPointer) {
        var masked: [UInt8] = []
        for byte in bytes { masked.append(byte ^ Self.mask) }
        self.masked = masked
    }

    /// The first or last half, which is looked for by itself: memory that was used again may hold a part only.
    func half(_ index: Int) -> MaskedBytes {
        let middle = masked.count / 2
        return MaskedBytes(masked: Array(index == 0 ? masked[..<middle] : masked[middle...]))
    }

    private init(masked: [UInt8]) { self.masked = masked }

    /// Where the bytes are in memory that is writable and private to the process: one line for each place.
    func placesInMemory() throws -> [String] {
        let size = 1 << 20
        // Shared, so that what is read is not itself found.
        let mapped = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)
        guard let mapped, mapped != MAP_FAILED else { throw CocoaError(.fileReadUnknown) }
        defer { munmap(mapped, size) }
        let memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC)
        guard memory >= 0 else { throw CocoaError(.fileReadNoPermission) }
        defer { close(memory) }
        var places: [String] = []
        for line in try Self.maps() {
            let fields = line.split(separator: " ", omittingEmptySubsequences: true)
            guard fields.count > 1, fields[1].hasPrefix("rw"), fields[1].hasSuffix("p") else {
                continue
            }
            let ends = fields[0].split(separator: "-").compactMap { Int($0, radix: 16) }
            var address = ends[0]
            while address < ends[1] {
                let count = pread(memory, mapped, min(size, ends[1] - address), address)
                // Another thread may have unmapped it.
                guard count >= masked.count else { break }
                for offset in offsets(in: UnsafeRawBufferPointer(start: mapped, count: count)) {
                    let name = fields.count > 5 ? String(fields[5]) : "anonymous"
                    places.append("\(String(address + offset, radix: 16)) in \(name) \(fields[0])")
                }
                if address + count >= ends[1] { break }
                address += count - (masked.count - 1)
            }
        }
        return places
    }

    /// The lines of the system's list. Read until its end: its file says that it has no size.
    private static func maps() throws -> [Substring] {
        let file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw CocoaError(.fileReadNoPermission) }
        defer { close(file) }
        var bytes: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(file, &part, part.count)
            guard count >= 0 else { throw CocoaError(.fileReadUnknown) }
            if count == 0 { break }
            bytes += part[..<count]
        }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    }

    private func offsets(in bytes: UnsafeRawBufferPointer) -> [Int] {
        // The search by one byte is the system's, which is fast in a build that is not optimized too.
        guard let base = bytes.baseAddress,
            let pivot = masked.firstIndex(where: { $0 ^ Self.mask != 0 })
        else { return [] }
        var found: [Int] = []
        var start = pivot
        while start < bytes.count,
            let hit = memchr(base + start, Int32(masked[pivot] ^ Self.mask), bytes.count - start)
        {
            let offset = base.distance(to: UnsafeRawPointer(hit)) - pivot
            if offset + masked.count <= bytes.count,
                masked.indices.allSatisfy({ bytes[offset + $0] ^ Self.mask == masked[$0] })
            {
                found.append(offset)
            }
            start = offset + pivot + 1
        }
        return found
    }
}
