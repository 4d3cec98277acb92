/** Markdown of documents. HTML in it is shown as text; links open elsewhere, and only safe schemes are links; pictures of
 * other hosts are not loaded (the policy forbids them), so that their text is shown instead. */
import Markdown from "react-markdown";
import remarkGfm from "remark-gfm";

const ABSOLUTE = /^(https?|mailto):/i;
/** Links within the corpus have no address that a browser could open. */

export function DocumentText({ text }: { text: string }) {
  return (
    <div className="opx-markdown">
      <Markdown
        remarkPlugins={[remarkGfm]}
        components={{
          a: ({ href, children }) =>
            ABSOLUTE.test(href ?? "") ? (
              <a href={href} target="_blank" rel="noreferrer noopener">
                {children}
              </a>
            ) : (
              <u title={href}>{children}</u>
            ),
          input: ({ checked }) => <span>{checked ? "☑" : "☐"}</span>,
          img: ({ alt }) => <em>[picture: {alt}]</em>,
          h1: ({ children }) => <h3>{children}</h3>,
          h2: ({ children }) => <h3>{children}</h3>,
          table: ({ children }) => (
            <div tabIndex={0} role="region" aria-label="table">
              <table>{children}</table>
            </div>
          ),
          pre: ({ children }) => <pre tabIndex={0}>{children}</pre>,
        }}
      >
        {text}
      </Markdown>
    </div>
  );
}
