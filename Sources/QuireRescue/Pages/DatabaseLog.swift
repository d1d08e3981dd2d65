internal import QuireProtection
internal import QuireSystem

/// The committed transactions of a write-ahead log, as far as its checksums are valid.
struct DatabaseLog {
    /// The offset of the newest copy of each page, by page number.
    private var offsets: [Int: Int64] = [:]
    /// The number of pages of the database after the last transaction; `nil` if there is none. Limited by the size of the
    /// files.
    private(set) var pageCount: Int?
    /// The number of frames after the last complete transaction.
    private(set) var droppedFrames = 0
    /// The number of these transactions that were committed, as far as recorded.
    private(set) var lostTransactions = 0

    private static let headerSize = 32
    private static let frameHeaderSize = 24

    /// No log.
    init() {}

    var isEmpty: Bool { offsets.isEmpty }

    func offset(ofPage number: Int) -> Int64? {
        offsets.isEmpty ? nil : offsets[number]
    }

    /// The size of a page that a log declares, if it begins as it must.
    static func pageSize(of file: OpenFile) -> Int? {
        guard let header = try? file.read(headerSize, at: 0), isLog(header) else { return nil }
        let size = Int(header.bigEndian32(at: 8))
        return size >= 512 && size <= 65536 && size & (size - 1) == 0 ? size : nil
    }

    private static func isLog(_ header: [UInt8]) -> Bool {
        header.bigEndian32(at: 0) & ~1 == 0x377F_0682 && header.bigEndian32(at: 4) == 3_007_000
    }

    /// Reads a log, frame by frame, up to the last complete transaction.
    ///
    /// A commit frame gives the number of pages of the database, and memory is allocated per page. So a forged frame could
    /// exhaust memory: the number is limited by the pages in both files. Pages that were freed before the commit are counted,
    /// but not written; they are some, not most.
    ///
    /// The pages of a protected database are sealed under the page numbers in the frames; checksums are over plaintext. A frame
    /// that fails authentication ends the log as a wrong checksum does.
    ///
    /// - Parameters:
    ///   - filePageCount: The number of pages in the database's file.
    ///   - unsealer: Decrypts the pages of a protected database.
    init(
        _ file: OpenFile, pageSize: Int, filePageCount: Int, unsealer: PageUnsealer? = nil
    ) {
        guard let header = try? file.read(Self.headerSize, at: 0), Self.isLog(header),
            Int(header.bigEndian32(at: 8)) == pageSize,
            let size = try? Int(clamping: file.information().size)
        else { return }
        let isBigEndian = header[3] & 1 == 1
        var checksum = Checksum()
        checksum.add(header[..<24], isBigEndian: isBigEndian)
        guard checksum.isRecorded(in: header, at: 24) else { return }
        let frameSize = Self.frameHeaderSize + pageSize
        let frameCount = max(0, size - Self.headerSize) / frameSize
        let (pagesInFiles, _) = filePageCount.addingReportingOverflow(frameCount)
        let maximumPage = max(
            pagesInFiles.multipliedReportingOverflow(by: 4).partialValue, pagesInFiles)
        var pending: [Int: Int64] = [:]
        var wholeFrames = 0
        for index in 0..<frameCount {
            let offset = Int64(Self.headerSize) + Int64(index) * Int64(frameSize)
            guard let frame = try? file.read(frameSize, at: offset),
                frame[8..<16].elementsEqual(header[16..<24])
            else { break }
            let page = Int(frame.bigEndian32(at: 0))
            guard page > 0 else { break }
            var content = frame[Self.frameHeaderSize...]
            if let unsealer {
                guard let opened = unsealer.open(Array(content), number: page) else { break }
                content = opened[...]
            }
            checksum.add(frame[..<8], isBigEndian: isBigEndian)
            checksum.add(content, isBigEndian: isBigEndian)
            guard checksum.isRecorded(in: frame, at: 16) else { break }
            if page <= maximumPage { pending[page] = offset + Int64(Self.frameHeaderSize) }
            let count = Int(frame.bigEndian32(at: 4))
            if count > 0 {
                offsets.merge(pending) { _, newer in newer }
                pending.removeAll()
                pageCount = min(count, maximumPage)
                wholeFrames = index + 1
            }
        }
        droppedFrames = frameCount - wholeFrames
        lostTransactions = (wholeFrames..<frameCount).count { index in
            // Frames of an earlier use of the log have another salt.
            let offset = Int64(Self.headerSize) + Int64(index) * Int64(frameSize)
            guard let frame = try? file.read(Self.frameHeaderSize, at: offset) else { return false }
            return frame[8..<16].elementsEqual(header[16..<24]) && frame.bigEndian32(at: 4) > 0
        }
        guard let pageCount else { return }
        offsets = offsets.filter { $0.key <= pageCount }
    }

    /// SQLite's sum over pairs of 32-bit words.
    private struct Checksum {
        private var first: UInt32 = 0
        private var second: UInt32 = 0

        mutating func add(_ bytes: ArraySlice<UInt8>, isBigEndian: Bool) {
            bytes.withUnsafeBytes { raw in
                for offset in stride(from: 0, to: raw.count & ~7, by: 8) {
                    let one = raw.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
                    let two = raw.loadUnaligned(fromByteOffset: offset + 4, as: UInt32.self)
                    first &+=
                        (isBigEndian ? UInt32(bigEndian: one) : UInt32(littleEndian: one))
                        &+ second
                    second &+=
                        (isBigEndian ? UInt32(bigEndian: two) : UInt32(littleEndian: two))
                        &+ first
                }
            }
        }

        func isRecorded(in bytes: [UInt8], at offset: Int) -> Bool {
            bytes.bigEndian32(at: offset) == first && bytes.bigEndian32(at: offset + 4) == second
        }
    }
}
