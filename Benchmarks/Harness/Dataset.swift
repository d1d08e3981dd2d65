import Foundation

/// The notes of a benchmark document: `count` notes, a folder per hundred, and two of fifty tags each.
///
/// Every value follows from the note's number, so all engines get the same ones in every run. Dates and
/// prices are multiples of a quarter: their sums are exact whatever the order, and can be compared.
struct Dataset: Sendable {
    static let notesPerFolder = 100
    static let tagCount = 50

    let count: Int
    /// The notes made in advance, so that making them is not measured; `nil` where memory is.
    private let notes: [NoteValues]?

    init(count: Int, inAdvance: Bool = true) {
        self.count = count
        notes = inAdvance ? (0..<count).map { NoteValues(number: $0, of: count) } : nil
    }

    subscript(number: Int) -> NoteValues { notes?[number] ?? NoteValues(number: number, of: count) }

    var folderCount: Int { (count + Self.notesPerFolder - 1) / Self.notesPerFolder }

    /// Before this date are the notes of a tenth of the document, from all over it.
    var endOfFirstTenth: Double { NoteValues.created(count / 10) }

    static func folderName(_ number: Int) -> String { "Folder \(number)" }
    static func tagName(_ number: Int) -> String { "tag\(number)" }

    /// `count` titles that occur, from all over the document.
    func titles(_ count: Int) -> [String] {
        (0..<count).map { NoteValues.title(($0 &* 7_919 &+ 13) % self.count) }
    }
}

/// The values of one note.
struct NoteValues: Sendable {
    /// About 12 bytes.
    var title: String
    /// About 200 bytes; every eighth is not ASCII.
    var body: String
    /// Seconds since 2001.
    var created: Double
    var rating: Int64
    var flag: Bool
    var price: Double
    var uuid: UUID
    var folder: Int
    var tags: (Int, Int)

    init(number: Int, of count: Int) {
        title = Self.title(number)
        body = Self.body(number)
        // 611,953 is prime and divides no count, so this is a permutation: dates are distinct, and not in the order of
        // insertion.
        created = Self.created((number &* 611_953) % count)
        rating = Int64(number % 6)
        flag = number % 3 == 0
        price = Double(number % 1_000) * 0.25
        uuid = Self.uuid(number)
        folder = number / Dataset.notesPerFolder
        let first = number % Dataset.tagCount
        tags = (first, (first + 1 + number / Dataset.tagCount % 49) % Dataset.tagCount)
    }

    /// The dates in their order.
    static func created(_ place: Int) -> Double { 700_000_000 + Double(place) * 60.25 }

    static func title(_ number: Int) -> String {
        let digits = String(number)
        return "Note " + String(repeating: "0", count: max(0, 7 - digits.utf8.count)) + digits
    }

    private static let words = [
        "quire", "paper", "binding", "signature", "folio", "margin", "ink", "column", "leaf",
        "spine",
        "thread", "press", "plate", "gutter", "recto", "verso",
    ]

    private static func body(_ number: Int) -> String {
        let length = 170 + (number &* 37) % 60
        var text = number % 8 == 0 ? "Über " : "Of "
        text.reserveCapacity(length + 12)
        var state = UInt64(truncatingIfNeeded: number) &* 0x9E37_79B9_7F4A_7C15 | 1
        while text.utf8.count < length {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            text += words[Int(state >> 60)]
            text += " "
        }
        return text
    }

    private static func uuid(_ number: Int) -> UUID {
        let low = UInt64(truncatingIfNeeded: number &+ 1) &* 0xD6E8_FEB8_6659_FD93
        let halves = (low, (low ^ low >> 29) &* 0x9E37_79B9_7F4A_7C15)
        return UUID(uuid: withUnsafeBytes(of: halves) { $0.loadUnaligned(as: uuid_t.self) })
    }
}
