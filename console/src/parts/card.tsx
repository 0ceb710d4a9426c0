import type { ReactNode } from "react";

/** Things that belong together, under one heading. */
export function Card({
  title,
  meta,
  tools,
  children,
  footer,
}: {
  title?: ReactNode;
  meta?: ReactNode;
  tools?: ReactNode;
  children: ReactNode;
  footer?: ReactNode;
}) {
  return (
    <section className="card">
      {title !== undefined && (
        <header>
          <h2>{title}</h2>
          {meta !== undefined && <span className="meta">{meta}</span>}
          {tools !== undefined && <span className="push row">{tools}</span>}
        </header>
      )}
      {children}
      {footer !== undefined && <footer>{footer}</footer>}
    </section>
  );
}

/** The top of a page: what it is, and what can be done. */
export function Head({
  title,
  crumb,
  under,
  why,
  children,
}: {
  title: ReactNode;
  crumb?: ReactNode;
  under?: ReactNode;
  why?: string;
  children?: ReactNode;
}) {
  return (
    <div className="head">
      <div>
        {crumb !== undefined && <p className="crumb">{crumb}</p>}
        <h1>{title}</h1>
        {under !== undefined && <p className="under">{under}</p>}
      </div>
      {(children !== undefined || why) && (
        <div className="acts">
          <div className="row">{children}</div>
          {why && <p className="why">{why}</p>}
        </div>
      )}
    </div>
  );
}
