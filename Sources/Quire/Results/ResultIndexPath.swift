/// Where an object stands among the results of a ``FetchedResultsController``: in which section, and where in it.
public struct ResultIndexPath: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The number of the section, from 0.
    public var section: Int
    /// The position in the section, from 0.
    public var item: Int

    /// Makes an index path.
    public init(section: Int, item: Int) {
        self.section = section
        self.item = item
    }

    /// Whether the left one comes before the right one.
    public static func < (left: ResultIndexPath, right: ResultIndexPath) -> Bool {
        (left.section, left.item) < (right.section, right.item)
    }

    /// Section and position, as in `[0, 2]`.
    public var description: String { "[\(section), \(item)]" }
}
