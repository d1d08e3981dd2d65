extension AttributeDerivation.TextFunction {
    /// The function's value. `canonical` folds as comparisons with `[cd]` do, so that two texts which are equal by
    /// those have equal canonical forms.
    func apply(to text: String) -> String {
        switch self {
        case .canonical:
            TextFolding.fold(text, [.caseInsensitive, .diacriticInsensitive])
        case .uppercase: text.uppercased()
        case .lowercase: text.lowercased()
        }
    }
}
