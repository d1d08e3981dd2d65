import Foundation
internal import QuireModel

extension AttributeType {
    /// The number that “YES” or “NO” stands for as a default value: a change of type in Xcode's editor leaves such texts
    /// behind, and its compiler takes them for 1 and 0.
    func number(fromTruth text: String) -> AttributeValue? {
        let number: Int64
        switch text.lowercased() {
        case "yes", "true": number = 1
        case "no", "false": number = 0
        default: return nil
        }
        return self.number(number)
    }

    /// The truth value that a number such as “0.0” stands for as a default value, which a change of type leaves behind as
    /// well; `nil` if the type is not boolean or the text is no number.
    func truth(fromNumber text: String) -> AttributeValue? {
        guard self == .boolean, let number = Double(text), number.isFinite else { return nil }
        return .boolean(number != 0)
    }

    /// A small number as a value of the type; `nil` if the type is not one of numbers.
    func number(_ number: Int64) -> AttributeValue? {
        switch self {
        case .integer16, .integer32, .integer64: .integer(number)
        case .double, .float: .double(Double(number))
        case .decimal: .decimal(Decimal(number))
        default: nil
        }
    }
}
