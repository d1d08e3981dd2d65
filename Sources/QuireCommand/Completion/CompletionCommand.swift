import ArgumentParser
import Foundation
import Quire

/// `quire completion SHELL`
struct CompletionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "completion",
        abstract: "Prints a script that completes commands in a shell.",
        discussion: """
            The script completes commands, options and files, and the contents of the document on \
            the command line: entities, objects, keys, templates, versions and additional content. \
            Documents are only read; without a key they stay locked.

            EXAMPLES:
              source <(quire completion bash)
              quire completion zsh > ~/.zfunc/_quire
              quire completion fish > ~/.config/fish/completions/quire.fish
            """)

    @Argument(help: ArgumentHelp("The shell.", valueName: "SHELL"))
    var shell: CompletionShell

    func run() throws {
        let output = Output(.table)
        try output.print(raw: shell.script + "\n")
        try output.flush()
    }
}

/// `quire complete-words SHELL -- WORD…`, which the scripts call.
///
/// It prints what the shell is to complete by itself if nothing follows (`files`, `folders` or `none`), and then a candidate a
/// line. Nothing is asked or reported, whatever the words are, and it ends after two seconds.
struct CompleteWordsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "complete-words", abstract: "Prints the candidates for a word.",
        shouldDisplay: false)

    @Argument(help: ArgumentHelp("The shell.", valueName: "SHELL"))
    var shell: CompletionShell

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("The part of the last word that the shell keeps.", valueName: "PART"))
    var prefix = ""

    @Argument(
        parsing: .postTerminator,
        help: ArgumentHelp("The words after the command, up to the cursor.", valueName: "WORD"))
    var words: [String] = []

    /// The time that a user waits for candidates.
    private static let seconds: UInt32 = 2

    @MainActor
    func run() async throws {
        // Passphrases are asked for only if this is a terminal.
        let nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC)
        if nowhere >= 0 { dup2(nowhere, STDERR_FILENO) }
        // A shell reports no process that ends by SIGPIPE.
        TerminationCleanup.handle(SIGALRM, on: DispatchQueue(label: "quire.completion")) {
            TerminationCleanup.end(by: SIGPIPE)
        }
        alarm(Self.seconds)
        let current = ShellText(words.last ?? "")
        // fish has them without quotation marks.
        let former = words.dropLast().map { shell == .fish ? $0 : ShellText($0).text }
        let completion = CommandCompletion(
            words: former.map(Self.expanded), current: current.text, in: QuireCommand.self)
        let candidates = await completion.candidates()
        let files = completion.files?.rawValue ?? "none"
        let lines = shell.lines(candidates, current: current, prefix: ShellText(prefix))
        let isUnfinished = shell == .bash && candidates.contains(where: \.isUnfinished)
        let text = ([files + (isUnfinished ? " unfinished" : "")] + lines).map { $0 + "\n" }
            .joined()
        try Array(text.utf8).withUnsafeBytes { try Output.write($0) }
    }

    /// A path with the home folder instead of `~`.
    private static func expanded(_ word: String) -> String {
        guard word.hasPrefix("~/"), let home = ProcessInfo.processInfo.environment["HOME"] else {
            return word
        }
        return home + word.dropFirst()
    }
}

/// A word as it was typed in a shell, possibly not yet finished.
struct ShellText {
    /// The text that it means.
    let text: String
    /// The quotation mark that is open at its end; empty if none is.
    let quote: String

    init(_ word: String) {
        for quote in ["", "'", "\""] {
            guard let words = try? ShellWords.split(word + quote), words.count <= 1 else {
                continue
            }
            (text, self.quote) = (words.first ?? "", quote)
            return
        }
        (text, quote) = (word, "")
    }

    /// A text as it is typed so that bash takes it for itself, inside a quotation mark or none.
    static func quoted(_ text: String, in quote: String) -> String {
        switch quote {
        case "'": text.replacing("'", with: #"'\''"#)
        case "\"": text.replacing(#/["\\$`]/#) { #"\"# + $0.output }
        default: text.replacing(#/[^\p{L}\p{N}_.\/+@%,:=~-]/#) { #"\"# + $0.output }
        }
    }
}

// MARK: - Shells

/// A shell that completes commands.
enum CompletionShell: String, CaseIterable, ExpressibleByArgument {
    case bash, zsh, fish

    /// Candidates as the shell's script reads them.
    ///
    /// - Parameters:
    ///   - current: The word at the cursor as it was typed.
    ///   - prefix: The part of it that bash keeps: it takes `=` and `:` for the ends of words.
    func lines(
        _ candidates: [CommandCompletion.Candidate], current: ShellText, prefix: ShellText
    ) -> [String] {
        candidates.map { candidate in
            switch self {
            case .bash:
                ShellText.quoted(
                    String(candidate.text.dropFirst(prefix.text.count)), in: current.quote)
            case .zsh:
                (candidate.isUnfinished ? "+" : "-") + candidate.text.replacing(":", with: "\\:")
                    + (candidate.summary.isEmpty ? "" : ":" + candidate.summary)
            case .fish:
                candidate.text + (candidate.summary.isEmpty ? "" : "\t" + candidate.summary)
            }
        }
    }

    /// The script that has the shell complete `quire`. File names it completes by itself.
    var script: String {
        switch self {
        case .bash:
            #"""
            # Completion of quire for bash: source <(quire completion bash)
            _quire() {
                local line=$COMP_LINE part= prefix= files= rest= words=() i
                for ((i = 0; i <= COMP_CWORD; i++)); do
                    part=${COMP_WORDS[i]}
                    # Up to the cursor, which may be inside of the word.
                    if ((i == COMP_CWORD)) && [[ $2 && $part == "$2"* ]]; then part=$2; fi
                    words+=("$prefix$part")
                    # What follows without a space is the same word, although bash divides it at = and :.
                    line=${line#*"$part"}
                    prefix=
                    if ((i < COMP_CWORD)) && [[ $line == [![:space:]]* ]]; then
                        prefix=${words[-1]}
                        unset 'words[-1]'
                    fi
                done
                prefix=${words[-1]%"$part"}
                if [[ $part == [=:]* && $prefix ]]; then prefix=${words[-1]}; fi
                {
                    IFS=' ' read -r files rest
                    mapfile -t COMPREPLY
                } < <(command quire complete-words bash --prefix "$prefix" -- "${words[@]:1}" 2>/dev/null)
                if [[ $rest ]]; then compopt -o nospace 2>/dev/null; fi
                if ((${#COMPREPLY[@]} == 0)); then
                    case $files in
                        files) compopt -o default 2>/dev/null ;;
                        folders) compopt -o dirnames 2>/dev/null ;;
                    esac
                fi
            }
            complete -o nosort -F _quire quire
            """#
        case .zsh:
            #"""
            #compdef quire
            # Completion of quire for zsh: save it as _quire in a folder of $fpath.
            _quire() {
                local -a lines finished unfinished
                lines=("${(@f)$(command quire complete-words zsh -- "${(@)words[2,CURRENT-1]}" "$QIPREFIX$PREFIX" 2>/dev/null)}")
                finished=(${${(M)lines[2,-1]:#-*}#-})
                unfinished=(${${(M)lines[2,-1]:#+*}#+})
                if (( ! $#finished && ! $#unfinished )); then
                    case $lines[1] in
                        files) _files ;;
                        folders) _files -/ ;;
                    esac
                    return
                fi
                (( $#finished )) && _describe -t words word finished
                (( $#unfinished )) && _describe -t words word unfinished -S ''
            }
            if [[ $funcstack[1] == _quire ]]; then _quire "$@"; else compdef _quire quire; fi
            """#
        case .fish:
            #"""
            # Completion of quire for fish: save it as ~/.config/fish/completions/quire.fish
            function __quire_complete
                set -l words (commandline -opc)
                set -e words[1]
                set -l current (commandline -ct)
                set -l lines (command quire complete-words fish -- $words "$current" 2>/dev/null)
                if test (count $lines) -gt 1
                    printf '%s\n' $lines[2..-1]
                else if test "$lines[1]" = files
                    __fish_complete_path "$current"
                else if test "$lines[1]" = folders
                    __fish_complete_directories "$current"
                end
            end
            complete -c quire -f -a '(__quire_complete)'
            """#
        }
    }
}
