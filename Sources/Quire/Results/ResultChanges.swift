/// What has become of the arrangement of results: old places count in the old one, new places in the new one.
struct ResultChanges {
    /// A section that has come or gone.
    struct Section {
        var name: String
        var index: Int
    }

    /// A place in an arrangement.
    struct Place {
        /// Among all results.
        var position: Int
        var indexPath: ResultIndexPath
    }

    /// What has become of one result.
    struct Object {
        var bits: UInt64
        /// The identifier it had before.
        var oldBits: UInt64
        var old: Place?
        var new: Place?
        /// Whether it has passed results that have not changed, or has gone into another section.
        var isMove = false
        /// Whether its values have changed; not so if just its identifier has.
        var isUpdate = false
    }

    var deletedSections: [Section] = []
    var insertedSections: [Section] = []
    var objects: [Object] = []

    var isEmpty: Bool { deletedSections.isEmpty && insertedSections.isEmpty && objects.isEmpty }
}
