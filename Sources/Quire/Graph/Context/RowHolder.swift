/// Holds rows of objects that a context need not have in memory: results of a fetch, what was read ahead, or a fetch that is
/// being read. It adds itself to the context's ``OutdatedRows`` when it is made, and removes itself when it is freed.
class RowHolder {
    /// Whether it is known which rows it holds.
    var isComplete: Bool { true }

    /// Calls a closure with the identifier of each object of which it holds the row, or contents of a relationship, and
    /// when they were read, as ``OutdatedRows`` counts.
    func forEachRow(_ body: (_ bits: UInt64, _ serial: UInt64) -> Void) {}
}
