/** Navigation around every page. */
import AppLayout from "@cloudscape-design/components/app-layout";
import SideNavigation, { type SideNavigationProps } from "@cloudscape-design/components/side-navigation";
import { useState } from "react";
import { Outlet, useLocation, useNavigate } from "react-router";

const PAGES: SideNavigationProps.Item[] = [
  { type: "link", text: "Ask", href: "#/" },
  { type: "link", text: "Documents", href: "#/documents" },
  { type: "link", text: "Inbox", href: "#/inbox" },
  { type: "link", text: "Coverage", href: "#/coverage" },
  { type: "link", text: "Sources", href: "#/sources" },
  { type: "link", text: "Graph", href: "#/graph" },
  { type: "link", text: "Learning", href: "#/learning" },
  { type: "link", text: "Quality", href: "#/quality" },
  { type: "link", text: "Tenants", href: "#/tenants" },
  { type: "link", text: "Health and audit", href: "#/health" },
];

const LABELS = {
  navigation: "Pages",
  navigationToggle: "Show the pages",
  navigationClose: "Hide the pages",
  tools: "Help",
  toolsToggle: "Show help",
  toolsClose: "Hide help",
};

export function Frame() {
  const { pathname } = useLocation();
  const navigate = useNavigate();
  const [open, setOpen] = useState(() => window.innerWidth > 900);
  const active = `#/${pathname.split("/")[1] ?? ""}`.replace("#/answers", "#/");
  return (
    <AppLayout
      ariaLabels={LABELS}
      toolsHide
      navigationOpen={open}
      onNavigationChange={({ detail }) => setOpen(detail.open)}
      navigation={
        <SideNavigation
          activeHref={active}
          header={{ text: "OPX Knowledge", href: "#/" }}
          items={PAGES}
          onFollow={(event) => {
            event.preventDefault();
            void navigate(event.detail.href.slice(1));
            if (window.innerWidth <= 900) setOpen(false);
          }}
        />
      }
      content={<Outlet />}
    />
  );
}
