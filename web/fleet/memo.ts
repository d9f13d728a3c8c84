import { Component, type ComponentChildren, type FunctionComponent, h } from 'preact';

/** Returns a component that is drawn again only if a property is another object or value than before. */
export function memo<Props extends object>(draw: (props: Props) => ComponentChildren): FunctionComponent<Props> {
  class Memo extends Component<Props> {
    override shouldComponentUpdate(next: Readonly<Props>): boolean {
      const names = Object.keys(next) as (keyof Props)[];
      return names.some((name) => next[name] !== (this.props as Props)[name]);
    }

    override render(props: Readonly<Props>): ComponentChildren {
      return draw(props as Props);
    }
  }
  return (props) => h(Memo, props as Props & { children?: ComponentChildren });
}
