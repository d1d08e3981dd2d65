/// Something that the writer does with its document.
enum CrashStep: Equatable {
    /// `create`: makes the document and opens it.
    case create
    /// `open`: opens it; if it is not there yet, makes it.
    case open
    /// `migrate`: opens it with the next version of its model.
    case migrate
    /// `rewrite`: as `migrate`, object by object.
    case rewrite
    /// `save=N`: saves it, each time with other content, until N saves have been made.
    case save(Int)
    /// `autosave=N`: the same, but waits until it has saved itself.
    case autosave(Int)
    /// `copy=NAME`: writes a copy to another package, which is not there yet.
    case copy(String)
    /// `replace=NAME`: writes a copy in the place of another package.
    case replace(String)
    /// `close`: closes it.
    case close
    /// `retry`: from now on a step that fails is tried again, and must succeed in the end.
    case retry

    init?(_ text: String) {
        let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
        let value = parts.count > 1 ? parts[1] : ""
        switch parts.first {
        case "create": self = .create
        case "open": self = .open
        case "migrate": self = .migrate
        case "rewrite": self = .rewrite
        case "save": self = .save(Int(value) ?? 1)
        case "autosave": self = .autosave(Int(value) ?? 1)
        case "copy": self = .copy(value)
        case "replace": self = .replace(value)
        case "close": self = .close
        case "retry": self = .retry
        default: return nil
        }
    }
}
