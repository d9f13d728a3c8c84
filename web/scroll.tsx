import type { ComponentChildren, Ref } from 'preact';

interface ScrollProps {
  /** Name for readers of the screen. */
  readonly label: string;
  readonly children: ComponentChildren;
  /** Whether it takes the height of the window. @default false */
  readonly isTall?: boolean;
  /** Place of its element. */
  readonly box?: Ref<HTMLElement>;
  readonly onScroll?: () => void;
}

/** A part of the page that scrolls by itself, also by keyboard. */
export function Scroll({ label, children, isTall = false, box = null, onScroll = () => {} }: ScrollProps) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls must be reachable by keyboard
    <section class={isTall ? 'scroll tall' : 'scroll'} ref={box} onScroll={onScroll} tabIndex={0} aria-label={label}>
      {children}
    </section>
  );
}
