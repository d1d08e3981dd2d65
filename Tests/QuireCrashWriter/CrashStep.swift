/// Something that the writer does with its document.
enum CrashStep: Equatable {
    /// `create`: makes the document and opens it.
    case create
    /// `open`: opens it; if it is not there yet, makes it.
    case open
    /// `migrate`: opens it with the next version of its model.
    case migrate
    /// `save=N`: saves it, each time with other content, until N saves have been made.
    case save(Int)
    /// `autosave=N`: the same, but waits until it has saved itself.
    case autosave(Int)
    /// `import`: puts more into its store than is to be in memory, in portions that are one transaction, and saves it.
    case importNotes
    /// `copy=NAME`: saves it as it is to another package, which does not exist yet, and goes on with this one.
    case copy(String)
    /// `replace=NAME`: the same in the place of another package.
    case replace(String)
    /// `export=NAME`: changes it and saves that to another package only, with what it is not saved with itself.
    case export(String)
    /// `saveAs=NAME`: changes it, saves that as another package, and goes on with that one.
    case saveAs(String)
    /// `move=NAME`: moves it.
    case move(String)
    /// `revertTo=NAME`: makes its content that of another package.
    case revertTo(String)
    /// `archive=NAME`: exports it as it was saved last to an archive, in the place of an older one if there is one. It need not
    /// be open.
    case archive(String)
    /// `extract=ARCHIVE,NAME`: extracts an archive of the save that the document stands at to another package, which does not
    /// exist yet. The document need not be open.
    case extract(String, to: String)
    /// `keep`: keeps a version of it.
    case keep
    /// `restore`: makes its content that of the first version that was kept by a step.
    case restore
    /// `close`: closes it.
    case close
    /// `retry`: from now on a step that fails is tried again, and must succeed in the end.
    case retry
    /// `descriptors=N`: from now on a step may open no more than N files more than are open, the first time that it is
    /// tried.
    case descriptors(Int)

    init?(_ text: String) {
        let parts = text.split(separator: "=", maxSplits: 1).map(String.init)
        let value = parts.count > 1 ? parts[1] : ""
        switch parts.first {
        case "create": self = .create
        case "open": self = .open
        case "migrate": self = .migrate
        case "save": self = .save(Int(value) ?? 1)
        case "autosave": self = .autosave(Int(value) ?? 1)
        case "import": self = .importNotes
        case "copy": self = .copy(value)
        case "replace": self = .replace(value)
        case "export": self = .export(value)
        case "saveAs": self = .saveAs(value)
        case "move": self = .move(value)
        case "revertTo": self = .revertTo(value)
        case "archive": self = .archive(value)
        case "extract":
            let names = value.split(separator: ",").map(String.init)
            guard names.count == 2 else { return nil }
            self = .extract(names[0], to: names[1])
        case "descriptors": self = .descriptors(Int(value) ?? 0)
        case "keep": self = .keep
        case "restore": self = .restore
        case "close": self = .close
        case "retry": self = .retry
        default: return nil
        }
    }
}
