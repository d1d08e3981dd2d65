import Foundation
import Quire

/// Classes of protection, and what unlocks, as the command prints them.
enum ProtectionListing {
    /// A class, and whether what has it cannot be read now.
    static func json(_ protection: FileProtection, isLocked: Bool) -> JSONValue {
        .object(["class": .string(protection.rawValue), "locked": .boolean(isLocked)])
    }

    /// A slot.
    static func json(_ slot: ProtectionDomain.Slot) -> JSONValue {
        .object([
            "id": .string(slot.id.uuidString), "kind": .string(slot.kind.rawValue),
            "label": .string(slot.label), "created": DateText.json(slot.created),
        ])
    }

    /// Slots, one a line.
    static func table(_ slots: [ProtectionDomain.Slot]) -> String {
        var table = TextTable([
            ("key", .left), ("kind", .left), ("label", .left), ("made", .left),
        ])
        table.rows = slots.map {
            [
                $0.id.uuidString, $0.kind.rawValue, $0.label,
                DateText.text($0.created),
            ]
        }
        return table.text
    }

    /// What a verb says of the words of a new recovery key, which goes before them.
    static let wordsNote =
        "The recovery key, which cannot be shown again; write it down and keep it apart:"
}
