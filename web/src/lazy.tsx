// A page whose code is fetched when it is first looked at.

import type { FunctionComponent } from "preact";
import { useEffect, useState } from "preact/hooks";

export function lazy<P extends object = object>(load: () => Promise<FunctionComponent<P>>): FunctionComponent<P> {
  let loaded: FunctionComponent<P> | undefined;
  return function Lazy(props: P) {
    const [, again] = useState(0);
    useEffect(() => {
      if (loaded !== undefined) return;
      void load().then((component) => {
        loaded = component;
        again(1);
      });
    }, []);
    const Loaded = loaded;
    return Loaded === undefined ? null : <Loaded {...props} />;
  };
}
