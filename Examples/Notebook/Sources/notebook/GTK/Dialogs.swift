import CGTK

extension Window {
    /// What a file dialog chooses.
    enum Choice {
        case file, folder, newFile(name: String)
    }

    /// Asks a question in a dialog above this window, without blocking the main thread.
    ///
    /// - Parameters:
    ///   - content: What is between the text and the buttons.
    ///   - answers: The buttons; Return presses the last one.
    /// - Returns: The button that was pressed; `nil` if the user closes the window.
    func ask(
        _ question: String, _ detail: String = "", _ content: Widget? = nil, answers: [String]
    ) async -> String? {
        await Question.ask(question, detail, content, answers, above: pointer(), of: nil)
    }

    /// Shows a file dialog.
    ///
    /// - Returns: Its path; `nil` if the user cancels.
    func choose(_ title: String, _ choice: Choice) async -> String? {
        let (action, button) =
            switch choice {
            case .file: (GTK_FILE_CHOOSER_ACTION_OPEN, "_Open")
            case .folder: (GTK_FILE_CHOOSER_ACTION_SELECT_FOLDER, "_Open")
            case .newFile: (GTK_FILE_CHOOSER_ACTION_SAVE, "_Save")
            }
        let chooser = Object(
            gtk_file_chooser_native_new(title, pointer(), action, button, nil), isOwned: true)
        if case .newFile(let name) = choice {
            gtk_file_chooser_set_current_name(chooser.reference, name)
        }
        gtk_native_dialog_set_modal(chooser.pointer(), 1)
        let response = await withCheckedContinuation { continuation in
            chooser.onNumber("response") { continuation.resume(returning: $0) }
            gtk_native_dialog_show(chooser.pointer())
        }
        guard response == GTK_RESPONSE_ACCEPT.rawValue,
            let file = gtk_file_chooser_get_file(chooser.reference)
        else { return nil }
        let path = Object(file, isOwned: true)
        guard let text = g_file_get_path(path.reference) else { return nil }
        defer { g_free(text) }
        return String(cString: text)
    }
}

extension Application {
    /// Asks a question while no window is open.
    func ask(
        _ question: String, _ detail: String = "", _ content: Widget? = nil, answers: [String]
    ) async -> String? {
        await Question.ask(question, detail, content, answers, above: nil, of: pointer())
    }
}

/// A window with a question and buttons.
private final class Question: Widget {
    private var continuation: CheckedContinuation<String?, Never>?

    static func ask(
        _ question: String, _ detail: String, _ content: Widget?, _ answers: [String],
        above parent: UnsafeMutablePointer<GtkWindow>?,
        of application: UnsafeMutablePointer<GtkApplication>?
    ) async -> String? {
        let window = Question(gtk_window_new())
        let buttons = Box().aligned(atEnd: true)
        for answer in answers {
            let isLast = answer == answers.last
            let button = Button(answer, style: isLast ? "suggested-action" : "text") {
                [unowned window] in window.answer(answer)
            }
            buttons.append(button)
            if isLast {
                gtk_window_set_default_widget(window.pointer(), button.pointer())
                if !(content is TextField) { button.focus() }
            }
        }
        let box = Box(vertical: true, spacing: 12, margin: 18, Label(question, style: "question"))
        if !detail.isEmpty { box.append(Label(detail, wraps: true)) }
        if let content { box.append(content) }
        box.append(buttons)
        gtk_window_set_child(window.pointer(), box.pointer())
        gtk_window_set_title(window.pointer(), question)
        gtk_window_set_transient_for(window.pointer(), parent)
        gtk_window_set_application(
            window.pointer(), application ?? parent.flatMap(gtk_window_get_application))
        gtk_window_set_modal(window.pointer(), 1)
        gtk_window_set_resizable(window.pointer(), 0)
        window.instead(of: "close-request") { [unowned window] in window.answer(nil) }
        window.closeOnEscape()
        return await withCheckedContinuation { continuation in
            window.continuation = continuation
            gtk_window_present(window.pointer())
        }
    }

    private func answer(_ answer: String?) {
        continuation?.resume(returning: answer)
        continuation = nil
        gtk_window_destroy(pointer())
    }

    private func closeOnEscape() {
        let keys = gtk_shortcut_controller_new()!
        let trigger = gtk_shortcut_trigger_parse_string("Escape")
        let close = gtk_named_action_new("window.close")
        gtk_shortcut_controller_add_shortcut(keys, gtk_shortcut_new(trigger, close))
        gtk_widget_add_controller(pointer(), keys)
    }
}
