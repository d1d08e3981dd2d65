internal import CZLib
package import Foundation

/// DEFLATE data without a header, as in Core Data's `Z_MODELCACHE`, in files of synchronization and in zip archives.
package enum RawDeflate {
    /// The maximum decompressed size.
    package static let maximumSize = 64 << 20

    fileprivate static let windowBits: Int32 = -15
    private static let chunkSize = 64 << 10

    /// Decompresses data; `nil` if it is damaged or incomplete, or the result exceeds a limit.
    package static func decompressed(_ data: Data, limit: Int = maximumSize) -> Data? {
        var stream = z_stream()
        guard
            inflateInit2_(
                &stream, windowBits, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK
        else { return nil }
        defer { inflateEnd(&stream) }
        return run(&stream, on: data, limit: limit) { inflate(&$0, Z_NO_FLUSH) }
    }

    /// Compresses data.
    package static func compressed(_ data: Data) -> Data? {
        var stream = z_stream()
        guard
            deflateInit2_(
                &stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, windowBits, 8, Z_DEFAULT_STRATEGY,
                ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK
        else { return nil }
        defer { deflateEnd(&stream) }
        return run(&stream, on: data, limit: 2 * maximumSize) { deflate(&$0, Z_FINISH) }
    }

    /// Processes data by a stream, chunk by chunk.
    private static func run(
        _ stream: inout z_stream, on data: Data, limit: Int, step: (inout z_stream) -> Int32
    ) -> Data? {
        guard data.count <= maximumSize else { return nil }
        var input = [UInt8](data)
        var chunk = [UInt8](repeating: 0, count: chunkSize)
        var result = Data()
        return input.withUnsafeMutableBufferPointer { input -> Data? in
            stream.next_in = input.baseAddress
            stream.avail_in = uInt(input.count)
            while true {
                let status = chunk.withUnsafeMutableBufferPointer { output -> Int32 in
                    stream.next_out = output.baseAddress
                    stream.avail_out = uInt(output.count)
                    let status = step(&stream)
                    result.append(
                        UnsafeBufferPointer(
                            rebasing: output[..<(output.count - Int(stream.avail_out))]))
                    return status
                }
                if result.count > limit { return nil }
                if status == Z_STREAM_END { return result }
                // Z_BUF_ERROR: the input is exhausted.
                if status != Z_OK { return nil }
            }
        }
    }
}

// MARK: - Chunks

/// Compresses the chunks of a DEFLATE stream independently of each other, so that several threads can compress one stream, and
/// readers can begin at any chunk. A compressor is used by one thread at a time.
package final class ChunkCompressor {
    private let stream: UnsafeMutablePointer<z_stream>
    private let level: Int32

    /// - Parameter level: 1, the fastest, to 9, the smallest.
    package init(level: Int) {
        self.level = Int32(level)
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let status = deflateInit2_(
            stream, self.level, Z_DEFLATED, RawDeflate.windowBits, 8, Z_DEFAULT_STRATEGY,
            ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        // With valid parameters it fails only without memory, which stops a Swift program anywhere.
        precondition(status == Z_OK, "zlib could not be initialized.")
    }

    deinit {
        deflateEnd(stream)
        stream.deallocate()
    }

    /// Compresses a chunk. The chunks of a stream, one after the other, are valid DEFLATE data.
    ///
    /// - Parameter isLast: Whether it ends the stream.
    package func compress(_ chunk: UnsafeRawBufferPointer, isLast: Bool) -> [UInt8] {
        deflateReset(stream)
        stream.pointee.next_in = UnsafeMutablePointer(
            mutating: chunk.bindMemory(to: UInt8.self).baseAddress)
        stream.pointee.avail_in = uInt(chunk.count)
        // Room for both flushes, so that each call of deflate completes.
        let capacity = Int(deflateBound(stream, uLong(chunk.count))) + 32
        return [UInt8](unsafeUninitializedCapacity: capacity) { output, count in
            stream.pointee.next_out = output.baseAddress
            stream.pointee.avail_out = uInt(output.count)
            if isLast {
                deflate(stream, Z_FINISH)
            } else {
                // Both, as the SOZip profile wants it.
                deflate(stream, Z_SYNC_FLUSH)
                deflate(stream, Z_FULL_FLUSH)
            }
            count = output.count - Int(stream.pointee.avail_out)
        }
    }
}

/// Decompresses chunks of a DEFLATE stream that do not depend on others, as ``ChunkCompressor`` makes them, or whole streams. A
/// decompressor is used by one thread at a time.
package final class ChunkDecompressor {
    private let stream: UnsafeMutablePointer<z_stream>

    package init() {
        stream = .allocate(capacity: 1)
        stream.initialize(to: z_stream())
        let status = inflateInit2_(
            stream, RawDeflate.windowBits, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size))
        // As in ChunkCompressor.
        precondition(status == Z_OK, "zlib could not be initialized.")
    }

    deinit {
        inflateEnd(stream)
        stream.deallocate()
    }

    /// Decompresses a chunk to a buffer of exactly the size of its content.
    ///
    /// - Returns: Whether the chunk is valid and fills the buffer.
    package func decompress(
        _ chunk: UnsafeRawBufferPointer, into buffer: UnsafeMutableRawBufferPointer
    ) -> Bool {
        inflateReset(stream)
        stream.pointee.next_in = UnsafeMutablePointer(
            mutating: chunk.bindMemory(to: UInt8.self).baseAddress)
        stream.pointee.avail_in = uInt(chunk.count)
        stream.pointee.next_out = buffer.bindMemory(to: UInt8.self).baseAddress
        stream.pointee.avail_out = uInt(buffer.count)
        let status = inflate(stream, Z_SYNC_FLUSH)
        return stream.pointee.avail_out == 0 && (status == Z_OK || status == Z_STREAM_END)
    }
}

/// The checksum of zip files.
package struct CRC32: Sendable {
    /// The checksum of the bytes so far.
    package private(set) var value: UInt32 = 0
    private var count: Int64 = 0

    /// The checksum of no bytes.
    package init() {}

    /// The checksum of bytes.
    package init(_ bytes: UnsafeRawBufferPointer) {
        count = Int64(bytes.count)
        value = UInt32(
            crc32_z(0, bytes.bindMemory(to: UInt8.self).baseAddress, bytes.count))
    }

    /// Appends bytes by their checksum.
    package mutating func append(_ next: CRC32) {
        value = UInt32(crc32_combine(uLong(value), uLong(next.value), off_t(next.count)))
        count += next.count
    }
}
