/// Which of the rows that fetch results hold must not make objects any more, because the context has saved,
/// refreshed or forgotten their objects since.
///
/// An object that is alive is the truth; its row in a list of results matters only once the object has been
/// released. What is noted here is asked for anew then. Nothing is noted while nobody holds results.
struct OutdatedRows: ~Copyable {
    /// Rises with every note.
    private(set) var serial: UInt64 = 0
    private var serials = IdentifierTable()
    /// Everything noted up to here concerns all rows.
    private var allSerial: UInt64 = 0
    private var holders = 0

    /// Notes that rows of an object are out of date.
    @inline(__always)
    mutating func note(_ bits: UInt64) {
        if holders == 0 { return }
        serial += 1
        serials.set(serial, for: bits)
    }

    /// Notes that all rows are out of date.
    mutating func noteAll() {
        if holders == 0 { return }
        serial += 1
        allSerial = serial
        serials.removeAll()
    }

    /// Whether a row was noted since a serial number.
    func contains(_ bits: UInt64, since: UInt64) -> Bool {
        if since == serial { return false }
        return allSerial > since || (serials[bits] ?? 0) > since
    }

    /// Counts who holds rows.
    mutating func addHolder() { holders += 1 }

    mutating func removeHolder() {
        holders -= 1
        if holders == 0 { serials.removeAll() }
    }
}
