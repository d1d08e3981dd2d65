/// Which of the rows that fetch results hold must not make objects any more, because the context has saved,
/// refreshed or forgotten their objects since.
///
/// An object that is alive is the truth; its row in a list of results matters only once the object has been
/// released. What is noted here is asked for anew then. Nothing is noted while no results are held, and from time to time
/// notes are removed of objects of which no row is held.
struct OutdatedRows: ~Copyable {
    /// Rises with every note.
    private(set) var serial: UInt64 = 0
    private var serials = IdentifierTable()
    /// Everything noted up to here concerns all rows.
    private var allSerial: UInt64 = 0
    /// The addresses of the holders, which are not retained.
    private var holders = IdentifierTable()
    /// How many notes there may be until those are removed that concern no row.
    private var limit = OutdatedRows.leastLimit
    private static let leastLimit = 256

    /// The number of objects noted, for tests.
    var count: Int { serials.count }

    /// Whether any rows are held.
    var areHeld: Bool { !holders.isEmpty }

    /// Notes that rows of an object are out of date.
    @inline(__always)
    mutating func note(_ bits: UInt64) {
        if holders.isEmpty { return }
        serial += 1
        serials.set(serial, for: bits)
        if serials.count > limit { removeUnneeded() }
    }

    /// Notes that all rows are out of date.
    mutating func noteAll() {
        if holders.isEmpty { return }
        serial += 1
        allSerial = serial
        serials.removeAll()
    }

    /// Whether a row was noted since a serial number.
    func contains(_ bits: UInt64, since: UInt64) -> Bool {
        if since == serial { return false }
        return allSerial > since || (serials[bits] ?? 0) > since
    }

    /// Adds a holder of rows, which must remove itself before it is freed.
    mutating func addHolder(_ holder: RowHolder) {
        holders.set(0, for: Self.address(of: holder))
    }

    mutating func removeHolder(_ holder: RowHolder) {
        holders.remove(Self.address(of: holder))
        if holders.isEmpty {
            serials.removeAll()
            limit = Self.leastLimit
        }
    }

    private static func address(of holder: RowHolder) -> UInt64 {
        UInt64(UInt(bitPattern: Unmanaged.passUnretained(holder).toOpaque()))
    }

    private borrowing func forEachHolder(_ body: (RowHolder) -> Void) {
        holders.forEach { address, _ in
            guard let pointer = UnsafeRawPointer(bitPattern: UInt(address)) else { return }
            body(Unmanaged<RowHolder>.fromOpaque(pointer).takeUnretainedValue())
        }
    }

    /// Calls a closure with the identifier of each object of which a row is held.
    ///
    /// - Returns: Whether these are all; not while rows are being read on another thread.
    borrowing func forEachHeldRow(_ body: (UInt64) -> Void) -> Bool {
        var isComplete = true
        forEachHolder { holder in
            isComplete = isComplete && holder.isComplete
            holder.forEachRow { bits, _ in body(bits) }
        }
        return isComplete
    }

    /// Removes the notes that concern no row. Each has cost its part of it by then.
    @inline(never)
    private mutating func removeUnneeded() {
        var needed = IdentifierTable()
        var heldCount = 0
        forEachHolder { holder in
            holder.forEachRow { bits, read in
                heldCount += 1
                if let noted = serials[bits], noted > read { needed.set(noted, for: bits) }
            }
        }
        limit = needed.count + max(Self.leastLimit, heldCount / 4)
        serials = needed
    }
}
