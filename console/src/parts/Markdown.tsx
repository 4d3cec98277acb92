/** Markdown of documents. HTML in it is shown as text; links open elsewhere, and only safe schemes are links; pictures of
 * other hosts are not loaded (the policy forbids them), so that their text is shown instead. */
import Markdown from "react-markdown";
import remarkGfm from "remark-gfm";

export function DocumentText({ text }: { text: string }) {
  return (
    <div className="opx-markdown">
      <Markdown
        remarkPlugins={[remarkGfm]}
        components={{
          a: ({ href, children }) => (
            <a href={href} target="_blank" rel="noreferrer noopener">
              {children}
            </a>
          ),
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
