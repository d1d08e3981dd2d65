internal import CZLib
package import Foundation

/// DEFLATE data without a header, as in Core Data's `Z_MODELCACHE` and in files of synchronization.
package enum RawDeflate {
    /// The maximum decompressed size.
    package static let maximumSize = 64 << 20

    private static let windowBits: Int32 = -15
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
