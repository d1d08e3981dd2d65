import Foundation
import Quire
import QuireMacros

/// A note. The words in its text that begin with `#` are its tags.
@Entity final class Note: ManagedObject {
    @Attribute(.unique, default: 0) var number: Int
    @Attribute(length: 1...) var text: String
    @Attribute(.indexed) var created: Date
    @Relationship(inverse: \Tag.notes) var tags: Set<Tag>

    override func awakeFromInsert() {
        super.awakeFromInsert()
        created = Date()
    }
}

/// A tag, which is there as long as a note has it.
@Entity final class Tag: ManagedObject {
    @Attribute(.unique) var name: String
    @Relationship var notes: Set<Note>
}
