/// What the pages of a database are for, as far as it can be found out by following the trees from their roots, the list of
/// free pages, and the pages that say of others what they are.
struct DatabaseMap {
    /// What is known of a page.
    enum Use: UInt8 {
        /// Nothing leads to it.
        case unknown
        /// It is part of the tree of a table or an index.
        case tree
        /// It is free: what is in it has been deleted, or is an older copy.
        case free
        /// It says what other pages are.
        case pointerMap
    }

    let pages: DatabasePages
    private var uses: [Use]
    private let hasPointerMaps: Bool
    /// Pages of trees that cannot be read, or that the file does not have any more.
    private(set) var lostPages: Set<Int> = []
    /// Whether the list of free pages was read to its end.
    private(set) var knowsFreePages = false

    init(_ pages: DatabasePages) {
        self.pages = pages
        hasPointerMaps = Self.hasPointerMaps(pages)
        uses = [Use](repeating: .unknown, count: pages.pageCount + 1)
        markPointerMaps()
    }

    subscript(number: Int) -> Use {
        number > 0 && number < uses.count ? uses[number] : .unknown
    }

    // MARK: - Trees

    /// Follows a tree from its root.
    ///
    /// - Returns: The leaves of a table, in their order, without those that another tree has.
    mutating func leaves(ofTreeAt root: Int) -> [Int] {
        var leaves: [Int] = []
        var pending = [root]
        while let number = pending.popLast() {
            guard number > 0, number < uses.count else {
                if number > 0, number <= pages.declaredPageCount, lostPages.count < uses.count {
                    lostPages.insert(number)
                }
                continue
            }
            guard uses[number] != .tree, uses[number] != .pointerMap else { continue }
            guard let bytes = pages.page(number),
                let page = TreePage(bytes, number: number, usableSize: pages.usableSize)
            else {
                lostPages.insert(number)
                continue
            }
            uses[number] = .tree
            if page.kind == .tableLeaf { leaves.append(number) }
            pending += page.children.reversed()
        }
        return leaves
    }

    // MARK: - Free pages

    /// Marks the free pages: those in the list that page 1 begins, and those of which a pointer map says so.
    mutating func markFreePages() {
        markFreeList()
        if knowsFreePages { return }
        for map in pointerMapPages {
            guard let bytes = pages.page(map) else { continue }
            for entry in 0..<entriesPerPointerMap {
                let number = map + 1 + entry
                guard number < uses.count else { break }
                if bytes[entry * 5] == 2, uses[number] == .unknown { uses[number] = .free }
            }
        }
    }

    private mutating func markFreeList() {
        guard pages.hasMagic, pages.header.count >= 40 else { return }
        var trunk = Int(pages.header.bigEndian32(at: 32))
        let declared = Int(pages.header.bigEndian32(at: 36))
        var found = 0
        while trunk != 0 {
            guard trunk < uses.count, uses[trunk] == .unknown, let bytes = pages.page(trunk) else {
                return
            }
            uses[trunk] = .free
            found += 1
            let count = Int(bytes.bigEndian32(at: 4))
            guard count <= pages.usableSize / 4 - 2 else { return }
            for index in 0..<count {
                let number = Int(bytes.bigEndian32(at: 8 + 4 * index))
                guard number > 0, number < uses.count else { return }
                if uses[number] == .unknown { uses[number] = .free }
                found += 1
            }
            trunk = Int(bytes.bigEndian32(at: 0))
        }
        knowsFreePages = found == declared
    }

    // MARK: - Pointer maps

    private var entriesPerPointerMap: Int { pages.usableSize / 5 }

    /// The pages that say what others are, if the database has any.
    private var pointerMapPages: StrideTo<Int> {
        stride(from: 2, to: hasPointerMaps ? uses.count : 2, by: entriesPerPointerMap + 1)
    }

    private mutating func markPointerMaps() {
        for number in pointerMapPages { uses[number] = .pointerMap }
    }

    /// Whether page 2 is one: as the header says, or, if that is gone, as it looks.
    private static func hasPointerMaps(_ pages: DatabasePages) -> Bool {
        if pages.hasMagic, pages.header.count >= 56, pages.header.bigEndian32(at: 52) == 0 {
            return false
        }
        guard let bytes = pages.page(2) else { return false }
        let count = min(pages.usableSize / 5, max(pages.pageCount - 2, 0))
        return (0..<count).allSatisfy { entry in
            let kind = bytes[entry * 5]
            let parent = Int(bytes.bigEndian32(at: entry * 5 + 1))
            return (1...5).contains(kind) && parent <= pages.declaredPageCount
                && (kind > 2 || parent == 0)
        }
    }
}
