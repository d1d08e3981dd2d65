internal import QuireModel
internal import QuireStore
internal import QuireSystem

/// The rows of one entity hierarchy by primary key: a copy-on-write value whose copies share unchanged pages.
///
/// Keys are mostly sequential, so rows are stored in sorted pages of consecutive keys; only pages with rows exist.
struct AtomicTable: Sendable {
    private struct Page: Sendable {
        /// The keys' bits above those that count within the page.
        let number: Int64
        var rows: ContiguousArray<AtomicRow?>
        var count = 0
    }

    private var pages: ContiguousArray<Page> = []
    /// The number of rows.
    private(set) var count = 0

    private static let pageBits: Int64 = 7
    private static let pageSize = 1 << 7

    /// The position of the first page whose number is not less.
    @inline(__always)
    private func position(ofPage number: Int64) -> Int {
        // Without gaps the page number is the position.
        if let first = pages.first?.number {
            let guess = number - first
            if guess >= 0, guess < pages.count, pages[Int(guess)].number == number {
                return Int(guess)
            }
        }
        return pages.partitioningIndex { $0.number >= number }
    }

    private static func place(of key: Int64) -> Int { Int(key & (Int64(pageSize) - 1)) }

    /// The row of a key.
    subscript(key: Int64) -> AtomicRow? {
        let number = key >> Self.pageBits
        let position = position(ofPage: number)
        guard position < pages.count, pages[position].number == number else { return nil }
        return pages[position].rows[Self.place(of: key)]
    }

    /// Sets the row for a key.
    ///
    /// - Returns: The previous row.
    @discardableResult
    mutating func set(_ row: AtomicRow, for key: Int64) -> AtomicRow? {
        let number = key >> Self.pageBits
        let position = position(ofPage: number)
        if position == pages.count || pages[position].number != number {
            pages.insert(
                Page(number: number, rows: ContiguousArray(repeating: nil, count: Self.pageSize)),
                at: position)
        }
        let place = Self.place(of: key)
        let old = pages[position].rows[place]
        pages[position].rows[place] = row
        if old == nil {
            pages[position].count += 1
            count += 1
        }
        return old
    }

    /// Changes the row for a key in place, if there is one.
    mutating func update(_ key: Int64, _ body: (inout AtomicRow) -> Void) {
        let number = key >> Self.pageBits
        let position = position(ofPage: number)
        guard position < pages.count, pages[position].number == number,
            pages[position].rows[Self.place(of: key)] != nil
        else { return }
        body(&pages[position].rows[Self.place(of: key)]!)  // There is one, as was just seen.
    }

    /// Removes the row for a key.
    @discardableResult
    mutating func remove(_ key: Int64) -> AtomicRow? {
        let number = key >> Self.pageBits
        let position = position(ofPage: number)
        guard position < pages.count, pages[position].number == number,
            let old = pages[position].rows[Self.place(of: key)]
        else { return nil }
        pages[position].rows[Self.place(of: key)] = nil
        pages[position].count -= 1
        count -= 1
        if pages[position].count == 0 { pages.remove(at: position) }
        return old
    }

    /// Calls a closure with the rows by primary key, until it returns `false`.
    func forEachWhile(_ body: (AtomicRow) throws -> Bool) rethrows {
        for page in pages {
            for row in page.rows {
                if let row, try !body(row) { return }
            }
        }
    }
}

/// A row in memory: its packed location, and the members of its to-many relationships.
struct AtomicRow: Sendable {
    let chunk: RowChunk
    let offset: UInt32
    /// The members of each to-many relationship, by ``ResolvedEntity/Relationship/toManyIndex``: identifier bits, in order,
    /// or by primary key. Empty if all of them are.
    var members: ContiguousArray<ContiguousArray<UInt64>> = []

    var packed: PackedRow { PackedRow(chunk: chunk, offset: Int(offset)) }
    var identifierBits: UInt64 { packed.identifierBits }
    var entityNumber: Int { ManagedObjectID.entityNumber(of: packed.identifierBits) }
    var size: Int { packed.size }

    func members(_ index: Int) -> ContiguousArray<UInt64> {
        index < members.count ? members[index] : []
    }

    mutating func setMembers(_ list: ContiguousArray<UInt64>, at index: Int, of count: Int) {
        if members.isEmpty {
            if list.isEmpty { return }
            members = ContiguousArray(repeating: [], count: count)
        }
        members[index] = list
    }
}
