/// A condition in SQL, and whether it can be NULL.
///
/// Predicates are true or false, never unknown. A comparison in SQL is NULL where a value is missing. Under AND and
/// OR and in WHERE that does what false does, so comparisons stay as plain as an index wants them; NOT turns a
/// condition that can be NULL round with `IS NOT TRUE`.
struct FetchCondition {
    var fragment: SQLFragment
    /// Whether it is NULL for some rows, rather than false.
    var canBeNull = false
    /// How it holds together with what stands beside it.
    private(set) var form = Form.single

    enum Form { case always, never, single, conjunction, disjunction }

    init(_ fragment: SQLFragment, canBeNull: Bool = false) {
        self.fragment = fragment
        self.canBeNull = canBeNull
    }

    /// True for every row.
    static let always = FetchCondition("1", form: .always)
    /// False for every row.
    static let never = FetchCondition("0", form: .never)

    private init(_ fragment: SQLFragment, form: Form) {
        self.fragment = fragment
        self.form = form
    }

    /// Whether it is true for every row.
    var isAlways: Bool { form == .always }
    /// Whether it is false for every row.
    var isNever: Bool { form == .never }

    /// The condition as part of a larger one.
    private var bracketed: SQLFragment {
        switch form {
        case .conjunction, .disjunction: "(\(fragment))"
        case .always, .never, .single: fragment
        }
    }

    func and(_ other: FetchCondition) -> FetchCondition {
        isAlways || other.isNever ? other : .all(of: [self, other])
    }

    func or(_ other: FetchCondition) -> FetchCondition { .any(of: [self, other]) }

    static prefix func ! (condition: FetchCondition) -> FetchCondition {
        if condition.isAlways { return .never }
        if condition.isNever { return .always }
        if condition.canBeNull { return FetchCondition("(\(condition.fragment)) IS NOT TRUE") }
        return FetchCondition("NOT (\(condition.fragment))")
    }

    static func all(of parts: [FetchCondition]) -> FetchCondition {
        if parts.contains(where: \.isNever) { return .never }
        return joined(parts.filter { !$0.isAlways }, by: " AND ", as: .conjunction) ?? .always
    }

    static func any(of parts: [FetchCondition]) -> FetchCondition {
        if parts.contains(where: \.isAlways) { return .always }
        return joined(parts.filter { !$0.isNever }, by: " OR ", as: .disjunction) ?? .never
    }

    /// A bound on how many conditions stand side by side: SQLite builds a tree as deep as they are many, and refuses
    /// one of more than 1,000 levels.
    private static let greatestWidth = 100

    private static func joined(
        _ parts: [FetchCondition], by word: SQLFragment, as form: Form
    ) -> FetchCondition? {
        if parts.count <= 1 { return parts.first }
        if parts.count > greatestWidth {
            let size = (parts.count + greatestWidth - 1) / greatestWidth
            let groups = stride(from: 0, to: parts.count, by: size).compactMap { start in
                joined(Array(parts[start..<min(start + size, parts.count)]), by: word, as: form)
            }
            return joined(groups, by: word, as: form)
        }
        var result = FetchCondition(
            // Conditions of the same form need no brackets, unless they are groups of many.
            parts.map { $0.form == form && parts.count == 2 ? $0.fragment : $0.bracketed }
                .joined(by: word),
            canBeNull: parts.contains(where: \.canBeNull))
        result.form = form
        return result
    }
}
